"""What a load changes, told thing by thing."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from placement_sched.model.service import COMPUTE_BINARY
from placement_sched.operations.fleet.state import State

NEW, CHANGED, GONE = "new", "changed", "gone"

#: What no reader of a change wants to see of a thing.
_SILENT = frozenset({"uuid", "generation", "version", "created_at", "updated_at", "id"})


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that is new, changed or gone; of a changed one, what was and what will be.

    ``kind`` is the noun, ``name`` what people call it, ``details`` old and new value by field.
    """

    what: str
    kind: str
    name: str
    details: tuple[tuple[str, Any, Any], ...] = ()


def changes(before: State, after: State) -> tuple[Change, ...]:
    """Return how two clouds differ, in the order of a file's sections.

    What comes with a new host (its provider, its service) is not told beside it.
    """
    new_hosts = {one.host for uuid, one in after.nodes.items() if uuid not in before.nodes}
    return (
        *_names("resource class", before.resource_classes, after.resource_classes),
        *_names("trait", before.traits, after.traits),
        *_things("flavor", before.flavors, after.flavors, lambda one: one.flavor.name),
        *_things(
            "image", before.images, after.images, lambda one: one.image.name or one.image.uuid
        ),
        *_things("server group", before.server_groups, after.server_groups, lambda one: one.name),
        *_things("host", before.nodes, after.nodes, _node_name),
        *_things(
            "service",
            before.services,
            {
                key: one
                for key, one in after.services.items()
                if key in before.services
                or one.host not in new_hosts
                or one.binary != COMPUTE_BINARY
                or one.disabled
                or one.forced_down
            },
            lambda one: f"{one.binary} of {one.host}",
        ),
        *_things(
            "provider",
            before.providers,
            {
                uuid: one
                for uuid, one in after.providers.items()
                if uuid in before.providers or uuid not in after.nodes or uuid in before.nodes
            },
            lambda one: one.name,
        ),
        *_things("aggregate", before.aggregates, after.aggregates, lambda one: one.name),
        *_things("instance", before.instances, after.instances, lambda one: one.display_name),
        *_things("allocations of", before.consumers, after.consumers, _consumer_name(after)),
    )


def _node_name(node: Any) -> str:
    host, name = str(node.host), str(node.hypervisor_hostname)
    return host if host == name else f"{host} {name}"


def _consumer_name(after: State) -> Any:
    def name(consumer: Any) -> str:
        instance = after.instances.get(consumer.uuid)
        return consumer.uuid if instance is None else instance.display_name

    return name


def _names(kind: str, before: frozenset[str], after: frozenset[str]) -> Iterator[Change]:
    for name in sorted(after - before):
        yield Change(NEW, kind, name)


def _things(
    kind: str, before: Mapping[Any, Any], after: Mapping[Any, Any], name_of: Any
) -> Iterator[Change]:
    for key, one in after.items():
        old = before.get(key)
        if old is None:
            yield Change(NEW, kind, name_of(one))
        elif old != one:
            yield Change(CHANGED, kind, name_of(one), tuple(_details("", old, one)))
    if kind == "allocations of":
        for key, one in before.items():
            if key not in after:
                yield Change(GONE, kind, name_of(one))


def _details(place: str, old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield what differs within two things: the place, what was there and what will be."""
    if old == new:
        return
    if is_dataclass(old) and is_dataclass(new):
        for field in fields(old):
            if field.name not in _SILENT or not place:
                under = field.name if not place else f"{place}.{field.name}"
                shown = "" if field.name in {"flavor", "image"} and not place else under
                yield from _details(shown, getattr(old, field.name), getattr(new, field.name))
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old, *new}, key=str):
            yield from _details(f"{place}.{key}".lstrip("."), old.get(key), new.get(key))
    else:
        yield place, plain(old), plain(new)


def plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, frozenset | set):
        return sorted(value)
    if isinstance(value, tuple):
        return [plain(one) for one in value]
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: plain(getattr(value, field.name))
            for field in fields(value)
            if field.name not in {"created_at", "updated_at"}
        }
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
