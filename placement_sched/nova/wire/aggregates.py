"""Nova's Aggregate as the host aggregate that is kept here, with nova's id and uuid."""

from typing import Any

from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.names import canonical
from placement_sched.nova.wire.objects import ObjectType, a_dict, a_list, integer, text, time

_AGGREGATE = ObjectType(
    "Aggregate",
    {
        "id": integer,
        **dict.fromkeys(("uuid", "name"), text),
        "hosts": a_list(text),
        "metadata": a_dict(text),
        **dict.fromkeys(("created_at", "updated_at"), time),
    },
    needed=("id", "uuid", "name"),
)


def aggregate_of(primitive: Any, place: str = "aggregate") -> HostAggregate:
    """Return the host aggregate of an Aggregate; hosts and metadata that are not set are empty.

    Raises :class:`~placement_sched.nova.wire.objects.UnreadableObject` naming the place.
    """
    return _made(_AGGREGATE.read(primitive, place))


def aggregates_of(primitives: Any) -> list[HostAggregate]:
    """Return the host aggregates that ``update_aggregates`` names: a list of them, or one."""
    listed = primitives if isinstance(primitives, list) else [primitives]
    return [aggregate_of(one, f"aggregates[{at}]") for at, one in enumerate(listed)]


def _made(found: dict[str, Any]) -> HostAggregate:
    metadata = found.pop("metadata", None) or {}
    return HostAggregate(
        **{**found, "uuid": canonical(found["uuid"]), "hosts": frozenset(found.get("hosts") or ())},
        metadata=metadata,
    )
