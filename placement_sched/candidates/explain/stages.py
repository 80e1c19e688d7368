"""The constraints of a search as stages, and what each leaves of the providers of every tree."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from sqlalchemy import ColumnElement, Connection, FromClause, Select, func, select

from placement_sched.candidates import constraints
from placement_sched.candidates.constraints import OWN_ROOT, Constraint, RootColumn
from placement_sched.candidates.provider_trees import sharing_pairs
from placement_sched.candidates.search import Search
from placement_sched.candidates.slots import serves_alone, slots_of
from placement_sched.db.collations import is_same_uuid
from placement_sched.db.sql import among
from placement_sched.db.tables import compute_nodes, resource_providers
from placement_sched.model.placement.provider import why_not
from placement_sched.model.placement.query import RequestGroup
from placement_sched.store.placement import capacity
from placement_sched.store.placement.capacity import UsedInventory


def detail_of(constraint: Constraint, suffix: str) -> str:
    """Return what a group with this suffix requests, in the words of a report."""
    return f"{constraint.detail} (group {suffix})" if suffix else constraint.detail


@dataclass(frozen=True, slots=True)
class Stage:
    """One constraint, which ``CheckedProvider.met`` has at ``index``.

    It must be met by the provider of each of ``slots``; with ``together``, by one provider of all
    of them; with ``of_root``, by the root of the tree.
    """

    index: int
    constraint: Constraint
    suffix: str = ""
    slots: tuple[int, ...] = ()
    together: bool = False
    of_root: bool = False

    @property
    def kind(self) -> str:
        """Return the name of the step in a report."""
        return self.constraint.kind

    @property
    def detail(self) -> str:
        """Return what is requested, and by which group."""
        return detail_of(self.constraint, self.suffix)


@dataclass(frozen=True, slots=True)
class CheckedProvider:
    """A provider that a tree may use, and which constraints it meets there."""

    id: int
    name: str
    met: tuple[bool, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedTree:
    """A tree, its root's compute node, and the providers left to serve each slot.

    ``together`` are the stages passed that one of the providers left must meet.
    """

    root: CheckedProvider
    uuid: str
    host: str
    node: str
    slots: tuple[tuple[CheckedProvider, ...], ...]
    together: tuple[Stage, ...] = ()

    def after(self, stage: Stage) -> "CheckedTree | None":
        """Return what a constraint leaves of the tree; None where it cannot serve any more."""
        if stage.of_root:
            return self if self.root.met[stage.index] else None
        if stage.together:
            left = replace(self, together=(*self.together, stage))
        else:
            slots = list(self.slots)
            for slot in stage.slots:
                slots[slot] = tuple(one for one in slots[slot] if one.met[stage.index])
            left = replace(self, slots=tuple(slots))
        return left if left.may_serve(stage) else None

    def providers(self, stage: Stage) -> tuple[CheckedProvider, ...]:
        """Return the providers left in the slots that a constraint is about."""
        return tuple({one.id: one for slot in stage.slots for one in self.slots[slot]}.values())

    def may_serve(self, stage: Stage) -> bool:
        """Return whether providers are left for a constraint, and for those met together."""
        return all(self.slots[slot] for slot in stage.slots) and all(
            any(one.met[other.index] for one in self.providers(other)) for other in self.together
        )


def stages_of(search: Search) -> tuple[Stage, ...]:
    """Return the constraints of a search in the order in which they are reported."""
    suffixes = [one.slot.suffix for one in slots_of(search.query, search.names)]
    found: list[Stage] = []
    for index, (group, constraint, position) in enumerate(_constraints(search, OWN_ROOT)):
        if group is None:
            found.append(Stage(index, constraint, of_root=True))
            continue
        slots = tuple(at for at, suffix in enumerate(suffixes) if suffix == group.suffix)
        split = not serves_alone(group)
        # The traits required come after the amounts.
        trait = position - len(group.resources)
        together = split and 0 <= trait < len(group.traits.required)
        slots = (slots[position],) if split and constraint.resource_class else slots
        found.append(Stage(index, constraint, group.suffix, slots, together))
    return tuple(found)


def _constraints(
    search: Search, root: RootColumn
) -> Iterator[tuple[RequestGroup | None, Constraint, int]]:
    """Yield each constraint, its group (None: the root) and its position in the group."""
    for group in search.query.groups:
        served = None if group.suffix else root
        for position, one in enumerate(constraints.constraints_of(group, search.names, served)):
            yield group, one, position
    for one in constraints.root_constraints_of(search.query.root, search.names):
        yield None, one, 0


def named(providers: FromClause, *more: ColumnElement[Any]) -> Select[Any]:
    """Return the query of host, node and id of providers, with more columns.

    One without a compute node has its own name as host and node.
    """
    name, node = providers.c.name, compute_nodes.c
    host = func.coalesce(node.host, name).label("host")
    hypervisor = func.coalesce(node.hypervisor_hostname, name).label("node")
    joined = providers.outerjoin(compute_nodes, is_same_uuid(node.uuid, providers.c.uuid))
    return select(host, hypervisor, providers.c.id, *more).select_from(joined)


def checked_trees(
    connection: Connection, search: Search, only: Sequence[int] | None = None
) -> list[CheckedTree]:
    """Return all trees with all providers they may use, before any constraint, by host and node.

    With ``only`` just the trees of these roots. Three statements at most: for providers, for those
    that share, and for what shares with which tree.
    """
    columns, flags = resource_providers.c, _Flags(search)
    root_id = columns.root_provider_id
    wanted = root_id.is_not(None) if only is None else among(connection, root_id, only)
    more = (root_id, columns.uuid, columns.name, *flags.columns)
    statement = named(resource_providers, *more).where(wanted)
    providers: dict[int, list[CheckedProvider]] = defaultdict(list)
    roots: list[tuple[CheckedProvider, str, str, str]] = []
    for host, node, key, root, uuid, name, *met in connection.execute(statement):
        provider = CheckedProvider(key, name or "", flags.read(met))
        providers[root].append(provider)
        if key == root:
            roots.append((provider, uuid, host or "", node or ""))
    if search.names.topology.sharing:
        for anchor, provider in _sharing(connection, search):
            if only is None or anchor in providers:
                providers[anchor].append(provider)
    number = len(slots_of(search.query, search.names))
    found = []
    for root, uuid, host, node in roots:
        slots = (tuple(providers[root.id]),) * number
        found.append(CheckedTree(root=root, uuid=uuid, host=host, node=node, slots=slots))
    return sorted(found, key=lambda tree: (tree.host, tree.node))


def _sharing(connection: Connection, search: Search) -> Iterator[tuple[int, CheckedProvider]]:
    """Yield each root with the providers that share with its tree.

    Nearly all constraints on a sharing provider are the same for every tree: these are evaluated
    once. Only forbidden aggregates of the group without suffix depend on the tree.
    """
    pairs = sharing_pairs()
    columns = resource_providers.c
    fixed: dict[int, ColumnElement[bool]] = {}
    varying: dict[int, ColumnElement[bool]] = {}
    for at, (group, one, _) in enumerate(_constraints(search, pairs.c.anchor_id)):
        forbidding = one.kind == "member_of" and one.aggregates is None
        of_tree = forbidding and group is not None and not group.suffix
        (varying if of_tree else fixed)[at] = one.condition.label(f"met_{at}")
    sharing = select(columns.id, columns.name, *fixed.values()).where(
        columns.id.in_(select(pairs.c.provider_id))
    )
    known = {key: (name or "", flags) for key, name, *flags in connection.execute(sharing)}
    made: dict[tuple[int, ...], CheckedProvider] = {}
    shared = select(pairs.c.anchor_id, columns.id, *varying.values()).join(
        pairs, pairs.c.provider_id == columns.id
    )
    for anchor, key, *flags in connection.execute(shared):
        if key not in known:  # it shares only since a moment ago
            continue
        if (key, *flags) not in made:
            name, others = known[key]
            met = dict(chain(zip(fixed, others, strict=True), zip(varying, flags, strict=True)))
            every = tuple([bool(met[at]) for at in range(len(met))])
            made[key, *flags] = CheckedProvider(key, name, every)
        yield anchor, made[key, *flags]


class _Flags:
    """A column for each constraint on a provider of a tree, two for one with alternatives."""

    def __init__(self, search: Search) -> None:
        found = list(_constraints(search, OWN_ROOT))
        # Memberships that go together are of one group.
        self._groups = [group.suffix if group else None for group, _, _ in found]
        self._paired = [constraint.alternatives is not None for _, constraint, _ in found]
        pairs = (one.alternatives or (one.condition,) for _, one, _ in found)
        conditions = enumerate(chain.from_iterable(pairs))
        self.columns = [condition.label(f"met_{at}") for at, condition in conditions]

    def read(self, flags: Sequence[object]) -> tuple[bool, ...]:
        """Return which constraints are met; a membership, only with all before it the same way."""
        if not any(self._paired):
            return tuple(map(bool, flags))
        rest = map(bool, flags)
        so_far: dict[str | None, tuple[bool, bool]] = {}
        met = []
        for group, paired in zip(self._groups, self._paired, strict=True):
            if paired:
                itself, root = so_far.get(group, (True, True))
                so_far[group] = (next(rest) and itself, next(rest) and root)
                met.append(any(so_far[group]))
            else:
                met.append(next(rest))
        return tuple(met)


def inventory_of(
    connection: Connection, constraint: Constraint, ids: Iterable[int]
) -> dict[int, UsedInventory]:
    """Return what providers have of a constraint's class, of those that have any."""
    class_id = constraint.resource_class_id
    rooms = capacity.read(connection, [(provider, class_id) for provider in ids])
    return {provider: room for (provider, _), room in rooms.items()}


def shortage(constraint: Constraint, room: UsedInventory | None) -> str:
    """Return why the requested amount does not fit into what a provider has (None: nothing)."""
    inventory, used = (room.inventory, room.used) if room else (None, 0)
    return f"{constraint.resource_class}: {why_not(inventory, used, constraint.amount)}"
