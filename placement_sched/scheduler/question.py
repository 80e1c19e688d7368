"""From a request to a question: what the candidates search is asked for a request spec.

Source: nova's documentation, "Flavors" (extra specs ``resources:``, ``trait:``) and
"Image Properties" (``trait:``).
"""

import re
from collections.abc import Iterator, Mapping
from uuid import UUID

from placement_sched.config.settings import Settings
from placement_sched.errors import Invalid, UnknownNames
from placement_sched.model.flavor import Flavor
from placement_sched.model.inventory import MAX_INT
from placement_sched.model.query import (
    AggregateTerms,
    CandidatesQuery,
    RequestGroup,
    TraitTerms,
)
from placement_sched.model.spec import RequestSpec

_RESOURCES = "resources:"
_TRAIT = "trait:"
#: Names of resource classes and traits (Placement API reference).
_SYMBOL = re.compile(r"[A-Z][A-Z0-9_]*")
_AMOUNT = re.compile(r"[0-9]{1,10}")
_WORDS = ("required", "forbidden")


def question_from(spec: RequestSpec, settings: Settings, node_uuid: str | None) -> CandidatesQuery:
    """Return the allocation-candidates question of a request.

    ``node_uuid`` is the one node that the request is confined to, if it is. Requests that name
    hosts or a cell are not cut at ``[scheduler] max_placement_results``, since what is cut might
    be the hosts named. Raises :class:`Invalid` for extra specs and image properties that cannot
    be, or that contradict each other, naming the keys.
    """
    group = RequestGroup(
        resources=resources_from_flavor(spec.flavor, boot_from_volume=spec.is_bfv),
        traits=_traits(spec),
        aggregates=_aggregates(spec),
        in_tree=node_uuid,
    )
    named = spec.force_hosts or spec.force_nodes or spec.destination.cell
    return CandidatesQuery(
        groups=(group,), limit=None if named else settings.scheduler.max_placement_results
    )


def unknown_in(spec: RequestSpec, unknown: UnknownNames) -> Invalid:
    """Return the error that tells where in the request the unknown names came from."""
    extra_specs, required = spec.flavor.extra_specs, spec.image.required_traits
    places = []
    for name in unknown.names:
        keys = [f"{prefix}{name}" for prefix in (_RESOURCES, _TRAIT)]
        places += [f"flavor extra spec {key!r}" for key in keys if key in extra_specs]
        if name in required:
            places.append(f"image property {_TRAIT + name!r}")
    told = f"No such {unknown.kind}: {', '.join(unknown.names)}"
    return Invalid(f"{told} ({', '.join(places)})" if places else told)


def resources_from_flavor(flavor: Flavor, *, boot_from_volume: bool) -> tuple[tuple[str, int], ...]:
    """Return the amounts of a flavor, overridden by its ``resources:`` keys; 0 asks nothing.

    Memory is in MB, disk in GB. Raises :class:`Invalid` naming an extra spec that cannot be.
    """
    amounts = {
        "VCPU": flavor.vcpus,
        "MEMORY_MB": flavor.memory_mb,
        "DISK_GB": _disk_gb(flavor, boot_from_volume=boot_from_volume),
    }
    amounts |= {
        name: _amount(key, value) for key, name, value in _keyed(flavor.extra_specs, _RESOURCES)
    }
    return tuple(sorted((name, amount) for name, amount in amounts.items() if amount))


def _keyed(extra_specs: Mapping[str, str], prefix: str) -> Iterator[tuple[str, str, str]]:
    """Yield key, name and value of the extra specs whose keys are a prefix and a name."""
    for key, value in extra_specs.items():
        if key.startswith(prefix):
            yield key, _name(f"flavor extra spec {key!r}", key.removeprefix(prefix)), value


def _name(place: str, name: str) -> str:
    if not _SYMBOL.fullmatch(name):
        raise Invalid(f"{place}: {name!r} is no name: upper case letters, digits and _ make one")
    return name


def _disk_gb(flavor: Flavor, *, boot_from_volume: bool) -> int:
    """Return the local disk in GB: swap, given in MB, is rounded up; a volume is not local."""
    root_gb = 0 if boot_from_volume else flavor.root_gb
    return root_gb + flavor.ephemeral_gb + -(-flavor.swap // 1024)


def _amount(key: str, value: str) -> int:
    if not _AMOUNT.fullmatch(value):
        raise Invalid(f"flavor extra spec {key!r}: expected an amount of 0 or more, got {value!r}")
    return min(int(value), MAX_INT + 1)


def _traits(spec: RequestSpec) -> TraitTerms:
    """Return the traits that flavor and image require, and those that the flavor forbids."""
    told: dict[str, set[str]] = {word: set() for word in _WORDS}
    for key, name, value in _keyed(spec.flavor.extra_specs, _TRAIT):
        if value not in told:
            raise Invalid(
                f"flavor extra spec {key!r}: expected {' or '.join(_WORDS)}, got {value!r}"
            )
        told[value].add(name)
    required, forbidden = told["required"], told["forbidden"]
    of_image = {
        _name(f"image property {_TRAIT + name!r}", name)
        for name in sorted(spec.image.required_traits)
    }
    if both := sorted(forbidden & of_image):
        raise Invalid(
            f"trait {both[0]} is forbidden by the flavor extra spec 'trait:{both[0]}' and required "
            f"by the image property 'trait:{both[0]}'"
        )
    return TraitTerms(
        tuple(frozenset({name}) for name in sorted(required | of_image)), frozenset(forbidden)
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
