"""The constraints of a search one by one, and what each leaves of the providers of every tree."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from sqlalchemy import Connection, func, select

from placement_sched.candidates.constraints import (
    OWN_ROOT,
    Constraint,
    Home,
    constraints_of,
    root_constraints_of,
)
from placement_sched.candidates.names import Names
from placement_sched.candidates.parts import parts_of, serves_alone
from placement_sched.candidates.search import Search
from placement_sched.candidates.topology import sharing_pairs
from placement_sched.db.among import among
from placement_sched.db.tables import compute_nodes, resource_providers
from placement_sched.model.query import CandidatesQuery, RequestGroup


def detail_of(constraint: Constraint, suffix: str) -> str:
    """Return what a group with this suffix asks, as a report tells it."""
    return f"{constraint.detail} (group {suffix})" if suffix else constraint.detail


@dataclass(frozen=True, slots=True, kw_only=True)
class Sieve:
    """One constraint: ``index`` says which of a member's ``met`` tells whether it is met.

    ``slots`` are those whose providers must meet it, each; with ``together``, one provider of all
    of them does. ``of_root``: it is the root of the tree that must.
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
        """Return what is asked, and by which group."""
        return detail_of(self.constraint, self.suffix)


@dataclass(frozen=True, slots=True)
class Member:
    """A provider that a tree may use, and which constraints it meets there."""

    id: int
    name: str
    met: tuple[bool, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grove:
    """A tree, its root's compute node, and who is left to serve each slot.

    ``together`` are the constraints that one of the members left must meet, as far as sifted.
    """

    root: Member
    uuid: str
    host: str
    node: str
    slots: tuple[tuple[Member, ...], ...]
    together: tuple[Sieve, ...] = ()

    def sifted(self, sieve: Sieve) -> "Grove | None":
        """Return what a constraint leaves of the tree; None where it cannot serve any more."""
        if sieve.of_root:
            return self if self.root.met[sieve.index] else None
        left = self
        if sieve.together:
            left = replace(self, together=(*self.together, sieve))
        else:
            left = replace(self, slots=tuple(self._meeting(sieve)))
        return left if left.may_serve(sieve) else None

    def members(self, sieve: Sieve) -> tuple[Member, ...]:
        """Return who is left in the slots that a constraint is about."""
        return tuple(
            {member.id: member for slot in sieve.slots for member in self.slots[slot]}.values()
        )

    def _meeting(self, sieve: Sieve) -> Iterator[tuple[Member, ...]]:
        for position, members in enumerate(self.slots):
            if position in sieve.slots:
                yield tuple(member for member in members if member.met[sieve.index])
            else:
                yield members

    def may_serve(self, sieve: Sieve) -> bool:
        """Return whether what a constraint left, and those before it, may still do."""
        return all(self.slots[slot] for slot in sieve.slots) and all(
            any(member.met[other.index] for member in self.members(other))
            for other in self.together
        )


def sieves_of(search: Search) -> tuple[Sieve, ...]:
    """Return the constraints of a search in the order in which they are told."""
    found: list[Sieve] = []
    for group, constraint, position in _constraints(search.query, search.names, OWN_ROOT):
        index = len(found)
        if group is None:
            found.append(Sieve(index=index, constraint=constraint, of_root=True))
            continue
        slots = _slots(search, group)
        spread = not serves_alone(group)
        found.append(
            Sieve(
                index=index,
                constraint=constraint,
                suffix=group.suffix,
                slots=(slots[position],) if spread and constraint.resource_class else slots,
                together=spread and position in _required(group),
            )
        )
    return tuple(found)


def _slots(search: Search, group: RequestGroup) -> tuple[int, ...]:
    parts = parts_of(search.query, search.names)
    return tuple(at for at, part in enumerate(parts) if part.slot.suffix == group.suffix)


def _required(group: RequestGroup) -> range:
    """Return where the traits required stand among a group's constraints: behind the amounts."""
    first = len(group.resources)
    return range(first, first + len(group.traits.required))


def _constraints(
    query: CandidatesQuery, names: Names, home: Home
) -> Iterator[tuple[RequestGroup | None, Constraint, int]]:
    """Yield each constraint, its group (None: the root) and its position in the group."""
    for group in query.groups:
        for position, constraint in enumerate(
            constraints_of(group, names, None if group.suffix else home)
        ):
            yield group, constraint, position
    for constraint in root_constraints_of(query.root, names):
        yield None, constraint, 0


def groves_of(
    connection: Connection, search: Search, only: Sequence[int] | None = None
) -> list[Grove]:
    """Return all trees with all providers they may use, before any constraint, by host and node.

    With ``only`` just the trees of these roots.

    Three statements at most, whatever there is: of providers, of those that share, and of who
    shares with which tree.
    """
    slots = len(parts_of(search.query, search.names))
    pools: dict[int, list[Member]] = defaultdict(list)
    roots: list[tuple[Member, str, str, str]] = []
    for root, uuid, host, node, member in _own(connection, search, only):
        pools[root].append(member)
        if root == member.id:
            roots.append((member, uuid, host, node))
    if search.topology.sharing:
        for anchor, member in _sharing(connection, search):
            if only is None or anchor in pools:
                pools[anchor].append(member)
    found = [
        Grove(root=root, uuid=uuid, host=host, node=node, slots=(tuple(pools[root.id]),) * slots)
        for root, uuid, host, node in roots
    ]
    return sorted(found, key=lambda grove: (grove.host, grove.node))


def _own(
    connection: Connection, search: Search, only: Sequence[int] | None
) -> Iterator[tuple[int, str, str, str, Member]]:
    itself = resource_providers.c
    flags = _Flags(search)
    wanted = (
        itself.root_provider_id.is_not(None)
        if only is None
        else among(connection, itself.root_provider_id, only)
    )
    rows = connection.execute(
        select(
            itself.id,
            itself.root_provider_id,
            itself.uuid,
            itself.name,
            func.coalesce(compute_nodes.c.host, itself.name),
            func.coalesce(compute_nodes.c.hypervisor_hostname, itself.name),
            *flags.columns,
        )
        .outerjoin(compute_nodes, compute_nodes.c.uuid == itself.uuid)
        .where(wanted)
    )
    for key, root, uuid, name, host, node, *met in rows:
        yield root, uuid, host or "", node or "", Member(key, name or "", flags.read(met))


def _sharing(connection: Connection, search: Search) -> Iterator[tuple[int, Member]]:
    """Yield who shares with which tree.

    Nearly all that is asked of a sharer is the same whichever tree it helps: that is asked once.
    """
    pairs = sharing_pairs()
    itself = resource_providers.c
    found = [
        (constraint, _is_of_home(group, constraint))
        for group, constraint, _ in _constraints(search.query, search.names, pairs.c.anchor_id)
    ]
    own = [
        one.condition.label(f"met_{at}") for at, (one, of_home) in enumerate(found) if not of_home
    ]
    homes = [one.condition.label(f"met_{at}") for at, (one, of_home) in enumerate(found) if of_home]
    sharers = {
        key: (name or "", tuple(map(bool, flags)))
        for key, name, *flags in connection.execute(
            select(itself.id, itself.name, *own).where(itself.id.in_(select(pairs.c.provider_id)))
        )
    }
    members: dict[tuple[int, tuple[bool, ...]], Member] = {}
    rows = connection.execute(
        select(pairs.c.anchor_id, itself.id, *homes).join(pairs, pairs.c.provider_id == itself.id)
    )
    for anchor, key, *flags in rows:
        met = tuple(map(bool, flags))
        if key not in sharers:  # it shares only since a moment ago
            continue
        if (key, met) not in members:
            name, others = sharers[key]
            rest, of_homes = iter(others), iter(met)
            whole = tuple([next(of_homes if of_home else rest) for _, of_home in found])
            members[key, met] = Member(key, name, whole)
        yield anchor, members[key, met]


def _is_of_home(group: RequestGroup | None, constraint: Constraint) -> bool:
    """Return whether it depends on the tree that is helped whether a sharer meets a constraint.

    So do forbidden aggregates of the group without suffix, and nothing else.
    """
    forbidding = constraint.kind == "member_of" and constraint.aggregates is None
    return forbidding and group is not None and not group.suffix


class _Flags:
    """A column for each constraint on a provider of a tree, two for one with halves; reads them."""

    def __init__(self, search: Search) -> None:
        found = list(_constraints(search.query, search.names, OWN_ROOT))
        self._halved = [constraint.halves is not None for _, constraint, _ in found]
        # Memberships that go together are of one group.
        self._groups = [group.suffix if group else None for group, _, _ in found]
        asked = chain.from_iterable(one.halves or (one.condition,) for _, one, _ in found)
        self.columns = [condition.label(f"met_{at}") for at, condition in enumerate(asked)]

    def read(self, flags: Sequence[object]) -> tuple[bool, ...]:
        """Return which constraints are met; a membership, only with all before it the same way."""
        if not any(self._halved):
            return tuple(map(bool, flags))
        rest = map(bool, flags)
        so_far: dict[str | None, tuple[bool, bool]] = {}
        met = []
        for group, halved in zip(self._groups, self._halved, strict=True):
            if halved:
                itself, root = so_far.get(group, (True, True))
                so_far[group] = (next(rest) and itself, next(rest) and root)
                met.append(any(so_far[group]))
            else:
                met.append(next(rest))
        return tuple(met)
