"""What filters read of a host, its aggregates and its instances, most under nova's names."""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Generic, TypeVar

from placement_sched.limits import MAX_JSON_DEPTH
from placement_sched.model.aggregates import ServerGroup
from placement_sched.model.document import is_deeper
from placement_sched.model.names import canonical
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.host_state import HostState

T = TypeVar("T")
#: Where a host reports how many bits a physical address has.
ADDRESS_BITS = ("cpu_info", "maxphysaddr", "bits")


def aggregate_values_from_key(host_state: HostState, key_name: str) -> set[str]:
    """Return the values of one key in all aggregates of the host, commas and all."""
    return {
        aggregate.metadata[key_name]
        for aggregate in host_state.aggregates
        if key_name in aggregate.metadata
    }


def aggregate_metadata_get_by_host(
    host_state: HostState, key: str | None = None
) -> dict[str, set[str]]:
    """Return the metadata of the host's aggregates, each value split at its commas.

    With ``key``, only of those aggregates that have it (but then all of their metadata).
    """
    metadata: dict[str, set[str]] = defaultdict(set)
    for aggregate in host_state.aggregates:
        if key is None or key in aggregate.metadata:
            for name, value in aggregate.metadata.items():
                metadata[name].update(part.strip() for part in value.split(","))
    return metadata


def aggregate_values(host_state: HostState, key: str) -> set[str]:
    """Return the values of one key in all aggregates of the host, each split at its commas."""
    values = (aggregate.metadata.get(key) for aggregate in host_state.aggregates)
    return {part.strip() for value in values if value is not None for part in value.split(",")}


class OncePerAggregates(Generic[T]):
    """What is found out of the aggregates of hosts, the first time for all hosts in the same ones.

    ``read`` may look at nothing of a host but its aggregates.
    """

    def __init__(self, read: Callable[[HostState], T]) -> None:
        self._read = read
        self._known: dict[tuple[int, ...], tuple[object, T]] = {}

    def of(self, host_state: HostState) -> T:
        """Return what is found out of the aggregates of this host."""
        aggregates = host_state.aggregates
        place = tuple(map(id, aggregates))
        known = self._known.get(place)
        if known is None:  # the aggregates are kept as well, so that their ids stay theirs
            known = self._known[place] = aggregates, self._read(host_state)
        return known[1]


def validate_num_values(
    vals: Collection[Any],
    default: Any = None,
    cast_to: Callable[[Any], Any] = int,
    based_on: Callable[..., Any] = min,
) -> Any:
    """Return the one number that counts among several: by default the smallest.

    Without any it is ``default``, as it is. Raises :class:`ValueError` where one is not a number.
    """
    return based_on(map(cast_to, vals)) if vals else default


def instance_uuids_overlap(host_state: HostState, uuids: str | Collection[str]) -> bool:
    """Return whether one of these instances is on the host."""
    return bool(host_state.instances.keys() & {*([uuids] if isinstance(uuids, str) else uuids)})


def hinted_instances(spec_obj: RequestSpec, hint: str) -> tuple[Sequence[str], frozenset[str]]:
    """Return the instances that a scheduler hint names, in their order and as a set."""
    given = spec_obj.scheduler_hints.get(hint)
    return spec_obj.read_once(given, _instances_named) if given else ((), frozenset())


def _instances_named(hint: Iterable[str]) -> tuple[Sequence[str], frozenset[str]]:
    asked = tuple(dict.fromkeys(canonical(uuid) for uuid in hint if uuid))
    return asked, frozenset(asked)


def members_on(host_state: HostState, spec_obj: RequestSpec, group: ServerGroup) -> int:
    """Return how many members of the request's group a host has; one, where the group names it."""
    members = spec_obj.read_once(group.members, frozenset)
    hosts = spec_obj.read_once(group.hosts, frozenset)
    return max(len(members.intersection(host_state.instances)), int(host_state.host in hosts))


def value_at(host_state: HostState, path: Sequence[str]) -> Any:
    """Return what lies at the end of the path, or None where it ends early.

    It begins at an attribute of the host, or at a key of its ``stats``; what is on the way may be
    written as JSON.
    """
    first, *rest = path
    value = getattr(host_state, first, None)
    if value is None:
        value = host_state.stats.get(first)
    for name in rest:
        value = inside(value, name)
    return value


def inside(value: Any, name: str) -> Any:
    """Return what a mapping, which may be written as JSON, has under a name, or None."""
    if isinstance(value, str):
        value = _decoded(value)
    # Most are dicts, of which that is known in an eighth of the time.
    return value.get(name) if type(value) is dict or isinstance(value, Mapping) else None


# A host is asked for one extra spec after the other, and many hosts report the same.
@lru_cache(maxsize=64)
def _decoded(text: str) -> Any:
    """Return what a text says in JSON, or the text where it says nothing or nests too deep."""
    # Not orjson: to nova NaN is JSON, and a whole number may be of any size.
    with suppress(ValueError, RecursionError):
        document = json.loads(text)
        # Most texts have too few brackets for it, which are counted in less time.
        may_be = text.count("{") + text.count("[") > MAX_JSON_DEPTH
        return text if may_be and is_deeper(document, MAX_JSON_DEPTH) else document
    return text
