"""Some trees of a cloud with all that combining needs: who serves which slot, and who shares."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, select

from placement_sched.candidates.combine import Budget, Room, Slot, Tree, lacks_traits
from placement_sched.candidates.coverage import bits_of
from placement_sched.candidates.forest import Forest
from placement_sched.candidates.members import (
    Member,
    conditions_of,
    members_of,
    members_of_first,
)
from placement_sched.candidates.sharers import Pool, Sharing, sharing_with
from placement_sched.db.among import among
from placement_sched.db.batches import batches
from placement_sched.db.tables import resource_provider_traits, resource_providers
from placement_sched.store import capacity


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """Some trees of a forest: ``roots`` of those looked at, in their order.

    ``trees``, by root, are those that have a provider for every slot, and among them the traits
    required together; where the same sharing providers serve all slots, several roots have the
    very same tree. ``members`` are all providers that may serve, by id.
    """

    roots: Sequence[int]
    trees: Mapping[int, Tree]
    members: Mapping[int, Member]


def read_first(
    connection: Connection, forest: Forest, size: int, after: int, budget: Budget
) -> Stand:
    """Return the first ``size`` trees by id behind ``after``.

    Raises :class:`TooComplex` where the budget does not suffice, as :func:`read_trees` does.
    """
    members = members_of_first(connection, forest, size, after)
    roots = sorted({member.root for member in members})
    budget.spend(_price(forest, len(roots)))
    return _stand(connection, forest, roots, members, budget)


def read_trees(
    connection: Connection,
    forest: Forest,
    roots: Sequence[int],
    budget: Budget,
    *,
    all_rooms: bool = False,
) -> Stand:
    """Return the trees of these roots, in this order.

    ``all_rooms`` tells what is free wherever several slots ask for a class, also where the rules
    leave a provider to one of them, and trees that lack a trait: an explanation tries other rules.
    """
    budget.spend(_price(forest, len(roots)))
    members = members_of(connection, forest, roots)
    return _stand(connection, forest, roots, members, budget, all_rooms=all_rooms)


def _price(forest: Forest, trees: int) -> int:
    """Return the steps for what the database is asked of so many trees."""
    return trees * max(0, conditions_of(forest) - _ASKED_FOR_NOTHING) // _ASKED


def _stand(
    connection: Connection,
    forest: Forest,
    roots: Sequence[int],
    members: Sequence[Member],
    budget: Budget,
    *,
    all_rooms: bool = False,
) -> Stand:
    sharing = sharing_with(connection, forest, roots, budget)
    options = dict(_options(forest, roots, members, sharing, budget))
    everybody = _everybody(members, sharing)
    # Each once, by identity: to compare them would take as long as to make them.
    different = {id(slots): slots for slots in options.values()}
    serving = [
        everybody[key]
        for key in {key for slots in different.values() for slot in slots for key in slot}
    ]
    rooms = _rooms(connection, forest, serving, all_rooms=all_rooms)
    met = _met(connection, forest, [member.id for member in serving])
    lines = _lines(connection, forest, members, sharing)
    own_roots = {member.id: member.root for member in serving}
    made = {
        key: Tree(
            options=slots,
            rooms=rooms,
            met=met,
            lines=lines,
            roots=own_roots,
        )
        for key, slots in different.items()
    }
    if not all_rooms:
        made = {key: tree for key, tree in made.items() if not lacks_traits(tree, forest.rules)}
    trees = {root: made[id(slots)] for root, slots in options.items() if id(slots) in made}
    return Stand(roots=roots, trees=trees, members=everybody)


def _everybody(members: Iterable[Member], sharing: Sharing) -> dict[int, Member]:
    """Return all providers by id; who shares may serve other slots at home."""
    found = {member.id: member for member in members}
    for sharer in sharing.sharers:
        own = found.get(sharer.id)
        slots = {*sharer.serves, *(own.serves if own else ())}
        found[sharer.id] = sharer._replace(serves=tuple(sorted(slots)))
    return found


#: So many conditions are asked of a tree for nothing, and so many more for one step.
_ASKED_FOR_NOTHING, _ASKED = 50, 2
#: Who serves each slot of a tree, by id.
_Options = tuple[tuple[int, ...], ...]
#: So many providers that may serve a slot are noted for one step.
_NOTED = 20


def _options(
    forest: Forest,
    roots: Sequence[int],
    members: Iterable[Member],
    sharing: Sharing,
    budget: Budget,
) -> Iterator[tuple[int, _Options]]:
    """Yield who serves each slot of a tree, by id, where there is somebody for all of them.

    It is the very same value for all trees that only the same sharing providers serve.
    """
    serving: dict[int, list[list[int]]] = {}
    for member in members:
        if member.serves:
            slots = serving.get(member.root)
            if slots is None:
                slots = serving[member.root] = [[] for _ in forest.parts]
            for slot in member.serves:
                slots[slot].append(member.id)
    pools = sharing.pools()
    offered: dict[Pool, _Options] = {}
    for root in roots:
        own, pool = serving.get(root), pools.get(root)
        options: _Options | None = None
        if pool is not None:
            options = offered.get(pool)
            if options is None:
                options = offered[pool] = _paid(sharing.offers(pool, len(forest.parts)), budget)
        if own is not None:
            options = _paid(_with_own(own, options), budget)
        if options is not None and all(options):
            yield root, options


def _with_own(own: Sequence[Sequence[int]], offered: _Options | None) -> _Options:
    """Return who serves each slot of a tree: its own, by slot, and who shares with it."""
    if offered is None:
        return tuple([tuple(sorted(slot)) for slot in own])
    return tuple(
        [
            tuple(sorted((*slot, *more))) if slot else more
            for slot, more in zip(own, offered, strict=True)
        ]
    )


def _paid(options: _Options, budget: Budget) -> _Options:
    """Return what was noted of a tree, once the budget has paid for it."""
    budget.spend(sum(map(len, options)) // _NOTED)
    return options


def _rooms(
    connection: Connection, forest: Forest, members: Iterable[Member], *, all_rooms: bool
) -> dict[tuple[int, int], Room]:
    """Return what is free of the classes that several slots may take of one provider."""
    slots = [part.slot for part in forest.parts]
    asked = [class_id for slot in slots for class_id, _ in slot.amounts]
    contested = {class_id for class_id in asked if asked.count(class_id) > 1}
    if not contested:
        return {}
    alone = forest.rules.isolate and not all_rooms
    known: dict[tuple[int, ...], frozenset[int]] = {}
    places: set[tuple[int, int]] = set()
    for member in members:
        crowded = known.get(member.serves)
        if crowded is None:
            served = [slots[position] for position in member.serves]
            crowded = frozenset(contested) if all_rooms else _crowded(served, alone=alone)
            known[member.serves] = crowded
        places.update((member.id, class_id) for class_id in crowded)
    if not places:
        return {}
    return {
        place: Room(free=room.inventory.capacity - room.used, max_unit=room.inventory.max_unit)
        for place, room in capacity.read(connection, places).items()
    }


def _crowded(slots: Sequence[Slot], *, alone: bool) -> frozenset[int]:
    """Return the classes of which a provider may be asked by several of the slots it serves.

    With ``alone`` at most one of the slots with a suffix goes there.
    """
    askers: dict[int, list[Slot]] = defaultdict(list)
    for slot in slots:
        for class_id, _ in slot.amounts:
            askers[class_id].append(slot)
    return frozenset(
        class_id
        for class_id, asking in askers.items()
        if len(asking) > 1 and not (alone and all(slot.suffix for slot in asking))
    )


def _met(connection: Connection, forest: Forest, providers: Iterable[int]) -> dict[int, int]:
    """Return which of the sets of traits required together each provider has one of, as bits."""
    bits = bits_of(forest.rules.trait_choices)
    if not bits:
        return {}
    carried = resource_provider_traits.c
    found: dict[int, int] = defaultdict(int)
    for batch in batches(providers):
        statement = select(carried.resource_provider_id, carried.trait_id).where(
            among(connection, carried.resource_provider_id, batch),
            carried.trait_id.in_(sorted(bits)),
        )
        for provider, trait in connection.execute(statement).all():
            found[provider] |= bits[trait]
    return found


def _lines(
    connection: Connection, forest: Forest, members: Iterable[Member], sharing: Sharing
) -> dict[int, frozenset[int]]:
    """Return each provider with all above it, where a rule of subtrees asks for that.

    A provider that shares may have a subtree of its own.
    """
    if not forest.rules.subtrees:
        return {}
    parents = {member.id: member.parent for member in (*members, *sharing.sharers)}
    itself = resource_providers.c
    for batch in batches({member.root for member in sharing.sharers}):
        statement = select(itself.id, itself.parent_provider_id).where(
            among(connection, itself.root_provider_id, batch)
        )
        parents.update((key, parent) for key, parent in connection.execute(statement).all())
    return {key: _line(key, parents) for key in parents}


def _line(provider: int | None, parents: Mapping[int, int | None]) -> frozenset[int]:
    """Return a provider with all above it, as far as they are known.

    Statements see one state of the cloud each: what was moved or removed between two of them may
    lack its parent, or stand above itself.
    """
    line: set[int] = set()
    while provider is not None and provider not in line:
        line.add(provider)
        provider = parents.get(provider)
    return frozenset(line)
