"""Aggregates that are tagged with the traits a request requires: ``trait:X=required``."""

from collections.abc import Collection, Iterable, Mapping

from oslo_config import cfg

from placement_sched.config.settings import Settings
from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.request_groups import groups_of

OFF, PREFER, REQUIRE = "off", "prefer", "require"

#: Read by a request filter, which requires, and by a weigher, which prefers.
OPTION = (
    "scheduler",
    cfg.StrOpt(
        "required_aggregates_by_trait",
        default=OFF,
        choices=[
            (OFF, "No effect beyond forbidden_aggregates."),
            (PREFER, "Hosts in them are preferred."),
            (REQUIRE, "Only hosts in them are candidates."),
        ],
        help="Whether a request that requires trait X must (require), should (prefer) or may (off) "
        "go to aggregates with metadata trait:X=required.",
    ),
)


def policy(settings: Settings) -> str:
    """Return ``off``, ``prefer`` or ``require``, as the operator has set it."""
    return str(settings.scheduler.required_aggregates_by_trait)


def required_traits(spec: RequestSpec) -> frozenset[str]:
    """Return every trait that flavor, image or requested resources require, of any group.

    Traits of the root provider that callers or request filters ask for are not among them, as in
    nova. Raises :class:`~placement_sched.errors.Invalid` for a request that contradicts itself.
    """
    return groups_of(spec).required_traits | spec.image.suffixed_traits


def tagged_with(
    traits: Collection[str], aggregates: Iterable[HostAggregate]
) -> Mapping[str, list[str]]:
    """Return the uuids of the aggregates tagged with each trait, in the order given.

    Traits come in order of name; those with which no aggregate is tagged are left out.
    """
    found: dict[str, list[str]] = {}
    for aggregate in aggregates:
        for trait in aggregate.reserving_traits:
            if trait in traits:
                found.setdefault(trait, []).append(aggregate.uuid)
    return dict(sorted(found.items()))
