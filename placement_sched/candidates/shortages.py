"""How much of a class providers have left, in the words of a refusal."""

from collections.abc import Iterable, Mapping

from sqlalchemy import Connection

from placement_sched.candidates.constraints import Constraint
from placement_sched.model.inventory import why_not
from placement_sched.store import capacity
from placement_sched.store.capacity import Room


def stocks_of(
    connection: Connection, constraint: Constraint, ids: Iterable[int]
) -> dict[int, Room]:
    """Return what those of the providers that have any have of a constraint's class."""
    class_id = constraint.resource_class_id
    rooms = capacity.read(connection, [(provider, class_id) for provider in ids])
    return {provider: room for (provider, _), room in rooms.items()}


def shortage(constraint: Constraint, stocks: Mapping[int, Room], provider: int) -> str:
    """Return why the amount asked does not fit into what a provider has."""
    room = stocks.get(provider)
    inventory, used = (room.inventory, room.used) if room else (None, 0)
    return f"{constraint.resource_class}: {why_not(inventory, used, constraint.amount)}"
