# SPDX-License-Identifier: Apache-2.0
"""Access to a host's aggregates, instances and attributes.

Most functions are named as in nova.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Generic, TypeVar

from placement_sched.limits import MAX_JSON_DEPTH
from placement_sched.model.aggregates import ServerGroup
from placement_sched.model.document import is_deeper
from placement_sched.model.names import canonicalize_uuid
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.host_state import HostState

T = TypeVar("T")

#: Path to the number of bits of physical addresses in the host's attributes.
ADDRESS_BITS = ("cpu_info", "maxphysaddr", "bits")


def aggregate_values_from_key(host_state: HostState, key_name: str) -> set[str]:
    """Return the values of a key in the host's aggregates, as they are."""
    return {
        aggregate.metadata[key_name]
        for aggregate in host_state.aggregates
        if key_name in aggregate.metadata
    }


def aggregate_metadata_get_by_host(
    host_state: HostState, key: str | None = None
) -> dict[str, set[str]]:
    """Map metadata keys of the host's aggregates to values, split at commas.

    With ``key``, only the metadata of aggregates that have this key are returned.
    """
    metadata: dict[str, set[str]] = defaultdict(set)
    for aggregate in host_state.aggregates:
        if key is None or key in aggregate.metadata:
            for name, value in aggregate.metadata.items():
                metadata[name].update(part.strip() for part in value.split(","))
    return metadata


def collect_aggregate_values(host_state: HostState, key: str) -> set[str]:
    """Return the values of a key in the host's aggregates, split at commas."""
    values = (aggregate.metadata.get(key) for aggregate in host_state.aggregates)
    return {part.strip() for value in values if value is not None for part in value.split(",")}


class OncePerAggregates(Generic[T]):
    """Cache of a value that hosts in the same aggregates share."""

    def __init__(self, read: Callable[[HostState], T]) -> None:
        self._read = read
        self._cached: dict[tuple[int, ...], tuple[object, T]] = {}

    def get_value(self, host_state: HostState) -> T:
        """Return the value of a host, cached by the aggregates of the host."""
        aggregates = host_state.aggregates
        key = tuple(map(id, aggregates))
        cached = self._cached.get(key)
        if cached is None:  # keep the aggregates: their ids must stay unique
            cached = self._cached[key] = aggregates, self._read(host_state)
        return cached[1]


def validate_num_values(
    vals: Collection[Any],
    default: Any = None,
    cast_to: Callable[[Any], Any] = int,
    based_on: Callable[..., Any] = min,
) -> Any:
    """Return the smallest number, or ``default`` if there are no numbers.

    ``based_on`` replaces ``min``. Raises :class:`ValueError` if ``cast_to`` rejects a value.
    """
    return based_on(map(cast_to, vals)) if vals else default


def instance_uuids_overlap(host_state: HostState, uuids: str | Collection[str]) -> bool:
    """Return whether any of these instances is on the host."""
    return bool(host_state.instances.keys() & {*([uuids] if isinstance(uuids, str) else uuids)})


def list_hinted_instances(spec_obj: RequestSpec, hint: str) -> tuple[Sequence[str], frozenset[str]]:
    """Return the instances that a hint names, in order and as a set."""
    value = spec_obj.scheduler_hints.get(hint)
    return spec_obj.read_once(value, _parse_instances) if value else ((), frozenset())


def _parse_instances(hint: Iterable[str]) -> tuple[Sequence[str], frozenset[str]]:
    uuids = tuple(dict.fromkeys(canonicalize_uuid(uuid) for uuid in hint if uuid))
    return uuids, frozenset(uuids)


def count_members(host_state: HostState, spec_obj: RequestSpec, group: ServerGroup) -> int:
    """Return the number of members on the host, at least 1 for a group host."""
    members = spec_obj.read_once(group.members, frozenset)
    hosts = spec_obj.read_once(group.hosts, frozenset)
    return max(len(members.intersection(host_state.instances)), int(host_state.host in hosts))


#: The attributes of host states in nova, which extra specs and expressions can name.
HOST_ATTRIBUTES = frozenset((*HostState.__slots__, "allocation_candidates"))


def find_value(host_state: HostState, path: Sequence[str]) -> Any:
    """Return the host's value at a path, or None without such a value.

    The path starts at an attribute, or at a key of ``stats``. Values on it may be JSON texts.
    """
    first, *names = path
    # Attributes that installed packages add to host states are only for their plugins.
    value = getattr(host_state, first, None) if first in HOST_ATTRIBUTES else None
    if value is None:
        value = host_state.stats.get(first)
    for name in names:
        value = get_item(value, name)
    return value


def get_item(value: Any, name: str) -> Any:
    """Return an item of a mapping or of a JSON object, or None."""
    if isinstance(value, str):
        value = _decode(value)
    # Most are dicts: the exact type check takes an eighth of the time.
    return value.get(name) if type(value) is dict or isinstance(value, Mapping) else None


# Several extra specs read the same text, and many hosts report the same.
@lru_cache(maxsize=64)
def _decode(text: str) -> Any:
    """Decode a JSON text, or return the text if it is invalid or too deep."""
    # Not orjson, because nova accepts NaN and integers of any size.
    with suppress(ValueError, RecursionError):
        document = json.loads(text)
        # Counting brackets is faster, and most texts have too few to be deep.
        may_be_deep = text.count("{") + text.count("[") > MAX_JSON_DEPTH
        return text if may_be_deep and is_deeper(document, MAX_JSON_DEPTH) else document
    return text
