"""Which trees can serve a request, and which of their providers serve which slot of it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import CTE, Connection, Select, and_, exists, literal, or_, select, union_all

from placement_sched.candidates.combine import Room, Rules, Tree
from placement_sched.candidates.constraints import Condition, apart, carriers_of
from placement_sched.candidates.names import Names
from placement_sched.candidates.parts import Part
from placement_sched.candidates.topology import Topology, sharing_pairs
from placement_sched.db.among import among
from placement_sched.db.batches import batches
from placement_sched.db.tables import resource_provider_traits, resource_providers
from placement_sched.model.query import TraitTerms
from placement_sched.store import capacity

#: So many slots are asked at once; a planner joins the tables of each.
_JOINED = 3

_itself = resource_providers.c
_tree = resource_providers.alias("tree")


@dataclass(frozen=True, slots=True, kw_only=True)
class Forest:
    """A request ready to be asked of trees."""

    parts: tuple[Part, ...]
    rules: Rules
    root: TraitTerms
    names: Names
    topology: Topology


def serving_roots(
    connection: Connection, forest: Forest, limit: int | None, after: int = 0
) -> list[int]:
    """Return the first ``limit`` roots, by id behind ``after``, of trees that may serve.

    Each slot has a provider there that could serve it alone; whether they do together is for
    the combination to say.
    """
    pairs = sharing_pairs() if forest.topology.sharing else None
    statement = (
        select(_tree.c.id)
        .where(
            _tree.c.id > after,
            _tree.c.id == _tree.c.root_provider_id,
            *_root_traits(forest),
            *_traits_somewhere(forest),
            *_servers_somewhere(forest, pairs),
        )
        .order_by(_tree.c.id)
        .limit(limit)
    )
    return list(connection.scalars(statement))


def _root_traits(forest: Forest) -> Iterator[Condition]:
    ids = forest.names.traits
    for any_of in forest.root.required:
        yield _tree.c.id.in_(carriers_of(ids[name] for name in any_of))
    if forest.root.forbidden:
        yield _tree.c.id.not_in(carriers_of(ids[name] for name in forest.root.forbidden))


def _traits_somewhere(forest: Forest) -> Iterator[Condition]:
    """Yield that the tree has each trait required of several providers together.

    Which of them bring it, the combination tells; a provider that shares might, too.
    """
    if not forest.topology.sharing:
        for choices in forest.rules.trait_choices:
            yield exists().where(
                _itself.root_provider_id == _tree.c.id, _itself.id.in_(carriers_of(choices))
            )


def _servers_somewhere(forest: Forest, pairs: CTE | None) -> Iterator[Condition]:
    for number, part in enumerate(forest.parts):
        condition = _has_server(part, pairs)
        yield condition if number < _JOINED else apart(condition)


def _has_server(part: Part, pairs: CTE | None) -> Condition:
    own = exists().where(_itself.root_provider_id == _tree.c.id, part.condition())
    if pairs is None:
        return own
    sharing = select(pairs.c.anchor_id).join(resource_providers, _itself.id == pairs.c.provider_id)
    return or_(own, _tree.c.id.in_(sharing.where(part.condition_shared(pairs.c.anchor_id))))


def read_trees(connection: Connection, forest: Forest, roots: Sequence[int]) -> list[Tree]:
    """Return the trees of these roots with all that combining needs, in that order."""
    options: dict[int, list[list[int]]] = {root: [[] for _ in forest.parts] for root in roots}
    own_roots: dict[int, int] = {}
    for batch in batches(roots, 10_000):
        rows = connection.execute(_servers(connection, forest, batch))
        for slot, home, provider, own_root in rows:
            options[home][slot].append(provider)
            own_roots[provider] = own_root
    rooms = _rooms(connection, forest, own_roots)
    traits = _traits(connection, forest, own_roots)
    parents = _parents(connection, forest, {*roots, *own_roots.values()})
    return [
        Tree(
            options=tuple(tuple(sorted(serving)) for serving in options[root]),
            rooms=rooms,
            traits=traits,
            parents=parents,
            roots=own_roots,
        )
        for root in roots
    ]


def _servers(
    connection: Connection, forest: Forest, roots: Sequence[int]
) -> Select[int, int, int, int]:
    """Return the query of who serves which slot where: slot, home root, provider, its own root."""
    pairs = sharing_pairs() if forest.topology.sharing else None
    queries = []
    for slot, part in enumerate(forest.parts):
        home = _itself.root_provider_id
        queries.append(
            select(literal(slot), home, _itself.id, home).where(
                and_(among(connection, home, roots), part.condition())
            )
        )
        if pairs is not None:
            anchor = pairs.c.anchor_id
            queries.append(
                select(literal(slot), anchor, _itself.id, home)
                .join(pairs, pairs.c.provider_id == _itself.id)
                .where(and_(among(connection, anchor, roots), part.condition_shared(anchor)))
            )
    return union_all(*queries)  # type: ignore[return-value] # a compound select yields these rows


def _rooms(
    connection: Connection, forest: Forest, providers: Mapping[int, int]
) -> dict[tuple[int, int], Room]:
    """Return what is free of the classes that several slots ask for, where any such is."""
    asked = [class_id for part in forest.parts for class_id, _ in part.slot.amounts]
    contested = {class_id for class_id in asked if asked.count(class_id) > 1}
    if not contested:
        return {}
    places = {(provider, class_id) for provider in providers for class_id in contested}
    return {
        place: Room(free=room.inventory.capacity - room.used, max_unit=room.inventory.max_unit)
        for place, room in capacity.read(connection, places).items()
    }


def _traits(
    connection: Connection, forest: Forest, providers: Mapping[int, int]
) -> dict[int, frozenset[int]]:
    """Return which of the traits required together each provider has."""
    wanted = sorted(frozenset().union(*forest.rules.trait_choices))
    if not wanted:
        return {}
    carried = resource_provider_traits.c
    found: dict[int, set[int]] = defaultdict(set)
    for batch in batches(providers):
        statement = select(carried.resource_provider_id, carried.trait_id).where(
            among(connection, carried.resource_provider_id, batch), carried.trait_id.in_(wanted)
        )
        for provider, trait in connection.execute(statement):
            found[provider].add(trait)
    return {provider: frozenset(held) for provider, held in found.items()}


def _parents(connection: Connection, forest: Forest, roots: Iterable[int]) -> dict[int, int | None]:
    """Return who is whose parent, where a rule of subtrees asks for it.

    A provider that shares may have a subtree of its own.
    """
    if not forest.rules.subtrees:
        return {}
    return {
        provider: parent
        for batch in batches(roots)
        for provider, parent in connection.execute(
            select(_itself.id, _itself.parent_provider_id).where(
                among(connection, _itself.root_provider_id, batch)
            )
        )
    }
