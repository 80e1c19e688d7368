"""What filters read of a host, its aggregates and its instances, most under nova's names."""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from placement_sched.model.document import DEEPEST, is_deeper
from placement_sched.model.naming import canonical
from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler.host_state import HostState

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


def hinted_instances_on(
    host_state: HostState, spec_obj: RequestSpec, hint: str
) -> tuple[list[str], list[str]]:
    """Return the instances that a scheduler hint names, and those of them on the host."""
    asked = [canonical(uuid) for uuid in spec_obj.scheduler_hints.get(hint, ()) if uuid]
    if not asked:
        return [], []
    return asked, sorted(host_state.instances.keys() & set(asked))


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
        if isinstance(value, str):
            value = _decoded(value)
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


# A host is asked for one extra spec after the other, and many hosts report the same.
@lru_cache(maxsize=64)
def _decoded(text: str) -> Any:
    """Return what a text says in JSON, or the text where it says nothing or nests too deep."""
    # Not orjson: to nova NaN is JSON, and a whole number may be of any size.
    with suppress(ValueError, RecursionError):
        document = json.loads(text)
        return text if is_deeper(document, DEEPEST) else document
    return text
