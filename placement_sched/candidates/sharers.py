"""Who shares with the trees that are looked at, and which of their slots they could serve."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, case, select

from placement_sched.candidates.combine import Budget
from placement_sched.candidates.constraints import bars
from placement_sched.candidates.forest import Forest
from placement_sched.candidates.members import Member, sharers_of
from placement_sched.candidates.topology import sharing_with_trees
from placement_sched.db.batches import batches

#: Who shares with a tree, by place among all who share, and the slots that are barred to them.
Pool = tuple[tuple[int, ...], frozenset[int]]
#: So many trees with which somebody shares are noted for one step.
_NOTED = 5


@dataclass(frozen=True, slots=True)
class Sharing:
    """Providers that share, and with the trees of which roots each of them does.

    ``barred`` are the slots, by root, that nobody from elsewhere may serve there: the root is in
    an aggregate that is forbidden.
    """

    sharers: Sequence[Member] = ()
    roots: Mapping[int, Sequence[int]] = field(default_factory=dict)
    barred: Mapping[int, frozenset[int]] = field(default_factory=dict)

    def pools(self) -> dict[int, Pool]:
        """Return who shares with each tree, by root, and which slots are barred to them."""
        sharing: dict[int, list[int]] = defaultdict(list)
        for place, sharer in enumerate(self.sharers):
            if sharer.serves:
                for root in self.roots[sharer.id]:
                    sharing[root].append(place)
        nothing: frozenset[int] = frozenset()
        return {
            root: (tuple(places), self.barred.get(root, nothing))
            for root, places in sharing.items()
        }

    def offers(self, pool: Pool, slots: int) -> tuple[tuple[int, ...], ...]:
        """Return who of a pool could serve each slot, by id in ascending order."""
        places, barred = pool
        offered: list[list[int]] = [[] for _ in range(slots)]
        for place in places:
            sharer = self.sharers[place]
            for slot in sharer.serves:
                if slot not in barred:
                    offered[slot].append(sharer.id)
        return tuple([tuple(sorted(slot)) for slot in offered])


def sharing_with(
    connection: Connection, forest: Forest, roots: Sequence[int], budget: Budget
) -> Sharing:
    """Return who shares with the trees of these roots, found with two statements.

    Raises :class:`TooComplex` where the budget does not suffice.
    """
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
        rows = connection.execute(statement).all()
        budget.spend(len(rows) // _NOTED)
        for sharer, root, *barrings in rows:
            shared.setdefault(sharer, []).append(root)
            if any(barrings):
                met = zip(barring, barrings, strict=True)
                barred[root] = frozenset(slot for slot, flag in met if flag)
    sharers = sharers_of(connection, forest, sorted(shared))
    return Sharing(sharers, shared, barred)
