"""Who shares with the trees that are looked at, and which of their slots they could serve."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, case, select

from placement_sched.candidates.constraints import bars
from placement_sched.candidates.forest import Forest
from placement_sched.candidates.members import Member, sharers_of
from placement_sched.candidates.topology import sharing_with_trees
from placement_sched.db.batches import batches


@dataclass(frozen=True, slots=True)
class Sharing:
    """Providers that share, and with the trees of which roots each of them does.

    ``barred`` are the slots, by root, that nobody from elsewhere may serve there: the root is in
    an aggregate that is forbidden.
    """

    sharers: Sequence[Member] = ()
    roots: Mapping[int, Sequence[int]] = field(default_factory=dict)
    barred: Mapping[int, frozenset[int]] = field(default_factory=dict)

    def offers(self) -> Iterator[tuple[int, int, int]]:
        """Yield which slot of which tree, by root, each of them could serve."""
        for sharer in self.sharers:
            for root in self.roots[sharer.id]:
                barred = self.barred.get(root, ())
                for slot in sharer.serves:
                    if slot not in barred:
                        yield root, slot, sharer.id


def sharing_with(connection: Connection, forest: Forest, roots: Sequence[int]) -> Sharing:
    """Return who shares with the trees of these roots, found with two statements."""
    if not forest.topology.sharing:
        return Sharing()
    barring = {
        slot: part.group.aggregates.forbidden
        for slot, part in enumerate(forest.parts)
        if part.group.aggregates.forbidden and not part.slot.suffix
    }
    shared: dict[int, list[int]] = {}
    barred: dict[int, frozenset[int]] = {}
    for batch in batches(roots, 10_000):
        pairs = sharing_with_trees(connection, batch)
        anchor = pairs.c.anchor_id
        flags = [
            case((bars(uuids, forest.names, anchor), 1), else_=0) for uuids in barring.values()
        ]
        statement = select(pairs.c.provider_id, anchor, *flags)
        for sharer, root, *barrings in connection.execute(statement).all():
            shared.setdefault(sharer, []).append(root)
            if any(barrings):
                met = zip(barring, barrings, strict=True)
                barred[root] = frozenset(slot for slot, flag in met if flag)
    sharers = sharers_of(connection, forest, sorted(shared))
    return Sharing(sharers, shared, barred)
