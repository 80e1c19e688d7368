"""From a request to a question: what the candidates search is asked for a request spec.

Source: nova's documentation, "Flavors" (extra specs ``resources:``, ``trait:``) and
"Image Properties" (``trait:``).
"""

import re
from uuid import UUID

from placement_sched.config.settings import Settings
from placement_sched.errors import Invalid
from placement_sched.model.flavor import Flavor
from placement_sched.model.inventory import MAX_INT
from placement_sched.model.query import (
    AggregateTerms,
    CandidatesQuery,
    RequestGroup,
    TraitTerms,
)
from placement_sched.model.spec import RequestSpec

_RESOURCE_KEY = re.compile(r"^resources:(?P<name>[A-Z][A-Z0-9_]*)$")
_TRAIT_KEY = re.compile(r"^trait:(?P<name>[A-Z][A-Z0-9_]*)$")
_AMOUNT = re.compile(r"^[0-9]{1,10}$")


def question_from(spec: RequestSpec, settings: Settings, node_uuid: str | None) -> CandidatesQuery:
    """Return the allocation-candidates question of a request.

    ``node_uuid`` is the one node that the request is confined to, if it is. Requests that name
    hosts are not cut at ``[scheduler] max_placement_results``, since what is cut might be the
    hosts named. Raises :class:`Invalid` for extra specs that cannot be, or that contradict the
    image, naming the keys.
    """
    group = RequestGroup(
        resources=_resources(spec),
        traits=_traits(spec),
        aggregates=_aggregates(spec),
        in_tree=node_uuid,
    )
    named = spec.force_hosts or spec.force_nodes
    return CandidatesQuery(
        groups=(group,), limit=None if named else settings.scheduler.max_placement_results
    )


def _resources(spec: RequestSpec) -> tuple[tuple[str, int], ...]:
    """Return the amounts of the flavor, overridden by its ``resources:`` keys; 0 asks nothing."""
    flavor = spec.flavor
    amounts = {
        "VCPU": flavor.vcpus,
        "MEMORY_MB": flavor.memory_mb,
        "DISK_GB": _disk_gb(flavor, boot_from_volume=spec.is_bfv),
    }
    amounts |= {
        match["name"]: _amount(key, value)
        for key, value in flavor.extra_specs.items()
        if (match := _RESOURCE_KEY.match(key))
    }
    return tuple(sorted((name, amount) for name, amount in amounts.items() if amount))


def _disk_gb(flavor: Flavor, *, boot_from_volume: bool) -> int:
    """Return the local disk in GB: swap, given in MB, is rounded up; a volume is not local."""
    root_gb = 0 if boot_from_volume else flavor.root_gb
    return root_gb + flavor.ephemeral_gb + -(-flavor.swap // 1024)


def _amount(key: str, value: str) -> int:
    if not _AMOUNT.match(value):
        raise Invalid(f"flavor extra spec {key!r}: expected an amount of 0 or more, got {value!r}")
    return min(int(value), MAX_INT + 1)


def _traits(spec: RequestSpec) -> TraitTerms:
    """Return the traits that flavor and image require, and those that the flavor forbids."""
    told = {
        match["name"]: value
        for key, value in spec.flavor.extra_specs.items()
        if (match := _TRAIT_KEY.match(key))
    }
    required = {name for name, value in told.items() if value == "required"}
    forbidden = {name for name, value in told.items() if value == "forbidden"}
    if both := sorted(forbidden & spec.image.required_traits):
        raise Invalid(
            f"trait {both[0]} is forbidden by the flavor extra spec 'trait:{both[0]}' and required "
            f"by the image property 'trait:{both[0]}'"
        )
    return TraitTerms(
        tuple(frozenset({name}) for name in sorted(required | spec.image.required_traits)),
        frozenset(forbidden),
    )


def _aggregates(spec: RequestSpec) -> AggregateTerms:
    destination = spec.destination
    return AggregateTerms(
        tuple(_uuids(joined) for joined in destination.aggregates),
        frozenset().union(*map(_uuids, destination.forbidden_aggregates)),
    )


def _uuids(joined: str) -> frozenset[str]:
    """Return the aggregates of one entry: uuids joined by commas, any of which will do."""
    return frozenset(str(UUID(part)) for part in joined.split(","))
