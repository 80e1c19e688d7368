# SPDX-License-Identifier: Apache-2.0
"""Aggregates with the tag ``trait:X=required`` for the traits of a request."""

from collections.abc import Collection, Iterable, Mapping

from oslo_config import cfg

from placement_sched.config.settings import Settings
from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.request_groups import groups_of

OFF, PREFER, REQUIRE = "off", "prefer", "require"

#: Read by a request filter for ``require``, and by a weigher for ``prefer``.
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
    """Return the configured mode, which is ``off``, ``prefer`` or ``require``."""
    return str(settings.scheduler.required_aggregates_by_trait)


def required_traits(spec: RequestSpec) -> frozenset[str]:
    """Return the traits that flavor, image or requested resources require, in any group.

    Traits of the root provider from callers or request filters are not included, as in nova.
    Raises :class:`~placement_sched.errors.Invalid` if the request contradicts itself.
    """
    return groups_of(spec).required_traits | spec.image.suffixed_traits


def tagged_with(
    traits: Collection[str], aggregates: Iterable[HostAggregate]
) -> Mapping[str, list[str]]:
    """Map each trait to the uuids of the aggregates tagged with it, in input order.

    The traits are sorted by name. Traits without a tagged aggregate are left out.
    """
    by_trait: dict[str, list[str]] = {}
    for aggregate in aggregates:
        for trait in aggregate.reserving_traits:
            if trait in traits:
                by_trait.setdefault(trait, []).append(aggregate.uuid)
    return dict(sorted(by_trait.items()))
