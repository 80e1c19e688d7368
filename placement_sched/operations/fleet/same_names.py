"""Refuses names that a database takes for one, at their place: MariaDB takes ``p``, ``P``, ``p ``.

Which ones these are depends on the collation of its columns, so it is the database that is asked.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from placement_sched.db.connection import Connection
from placement_sched.errors import Duplicate
from placement_sched.model.allocation import ConsumerClaim
from placement_sched.operations.fleet.blame import blamed
from placement_sched.operations.fleet.state import ProviderState
from placement_sched.store import consumers, names, resource_providers
from placement_sched.store.names import PROJECT, USER

T = TypeVar("T")
Places = Mapping[tuple[str, ...], tuple[str | int, ...]]


def write_named(
    connection: Connection,
    wanted: Sequence[ProviderState],
    write: Callable[[Sequence[ProviderState]], None],
    told_at: Places,
) -> None:
    """Let ``write`` create or rename providers, and blame the one whose name is taken."""
    if not wanted or _done(connection, write, wanted):
        return
    # The shortest beginning that cannot be written ends with the one to blame.
    count = bisect_left(
        range(len(wanted)),
        True,
        lo=1,
        key=lambda some: not _done(connection, write, wanted[:some], undo=True),
    )
    *before, last = wanted[:count]
    write(before)
    others = {one.name for one in resource_providers.by_names(connection, [last.name])}
    same = f"as {_seen(min(others))} to the database" if others - {last.name} else "as another's"
    with blamed(f"provider {_seen(last.name)}", *told_at.get(("provider", last.uuid), ())):
        raise Duplicate(f"its {'name is the same' if others else 'uuid is the same'} {same}")


def _done(
    connection: Connection,
    write: Callable[[Sequence[T]], None],
    rows: Sequence[T],
    *,
    undo: bool = False,
) -> bool:
    """Return whether rows can be written, which is done unless ``undo``."""
    try:
        with connection.begin_nested() as savepoint:
            write(rows)
            if undo:
                savepoint.rollback()
    except Duplicate:
        return False
    return True


def refuse_merged_owners(
    connection: Connection, claims: Collection[ConsumerClaim], told_at: Places
) -> None:
    """Blame a consumer whose project or user was written as another, taken for the same."""
    held = [claim for claim in claims if claim.allocations]
    given = consumers.owner_names(held)
    found = names.ids(connection, {kind: given[kind] for kind in (PROJECT, USER)})
    for claim in held:
        for kind, name in ((PROJECT, claim.project_id), (USER, claim.user_id)):
            if (kind, name) in found:
                continue
            other = names.as_kept(connection, kind, name) or ""
            place = told_at.get(("instance", claim.consumer)) or told_at.get(
                ("consumer", claim.consumer), ()
            )
            with blamed(f"{kind} {_seen(name)}", *place):
                raise Duplicate(f"its name is the same as {_seen(other)} to the database")


def _seen(name: str) -> str:
    """Return a name as it is told; a blank at an end wants quotes to be seen."""
    return name if name and name == name.strip() else repr(name)
