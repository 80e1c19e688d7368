"""Provider summaries: the bulk of an answer, kept ready-made but for the usages.

What a provider has (capacities, traits) is kept as a JSON fragment for as long as its generation
is the same, since every change of it bumps the generation. What bumps none is compared: parent and
root, and the names of resource classes, which before microversion 1.7 could be changed. Usages are
read live, because deleting allocations bumps nothing. Bounded, per process, correct beside other
writers.

Nothing is kept where a provider may get the id of one that is gone (OpenStack placement's database
on SQLite): made again, it may be the same in all that is compared, and its times may be, too, since
they are kept to the second.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock

import orjson
from sqlalchemy import BigInteger, Connection, Select, String, cast, func, select

from placement_sched.db.among import among
from placement_sched.db.batches import AT_ONCE, batches
from placement_sched.db.tables import (
    allocations,
    inventories,
    resource_provider_traits,
    resource_providers,
    traits,
)
from placement_sched.db.used_ids import uses_ids_again
from placement_sched.model.candidate import CandidateProvider, Usages
from placement_sched.model.inventory import Inventory

#: How many providers' fragments a process keeps (some kilobytes each).
KEPT = 100_000
#: A generation that no provider has.
_NEVER = -1

_TRAIT_NAMES = select(traits.c.id, traits.c.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What the version asked shows: which classes (None: all), traits, and the tree."""

    classes: frozenset[int] | None
    traits: bool
    tree: bool

    @property
    def is_newest(self) -> bool:
        """Return whether everything there is to show is shown."""
        return self.classes is None and self.traits and self.tree


@dataclass(frozen=True, slots=True)
class Resources:
    """JSON of what there is of each class, with %d where the usage goes; and of all together."""

    each: tuple[bytes, ...]
    all: bytes


@dataclass(frozen=True, slots=True)
class Fragment:
    """What a summary shows of a provider as long as it stays as it is, in pieces of JSON.

    The newest form is ``opening``, all ``resources`` with their usages, ``traits`` and ``tree``.
    ``classes`` are the ids of the resources. An opening begins with a comma.
    """

    provider: CandidateProvider
    classes: tuple[int, ...]
    opening: bytes
    resources: Resources
    traits: bytes
    tree: bytes

    def summary(self, used: Iterable[int], shape: Shape) -> bytes:
        """Return the summary in an older form; ``used`` is what is used of each class."""
        resources = b",".join(
            piece % amount
            for one, piece, amount in zip(self.classes, self.resources.each, used, strict=True)
            if shape.classes is None or one in shape.classes
        )
        traits = self.traits if shape.traits else _NO_TRAITS
        tree = self.tree if shape.tree else b"}"
        return b"".join((self.opening, resources, traits, tree))


#: What ends the resources of a summary that tells no traits.
_NO_TRAITS = b"}"


@dataclass(frozen=True, slots=True)
class _Kept:
    """Fragments by provider id, and the names of classes that stand in them."""

    class_names: Mapping[int, str] = field(default_factory=dict)
    fragments: dict[int, Fragment] = field(default_factory=dict)

    def agrees_with(self, class_names: Mapping[int, str]) -> bool:
        """Return whether no class that a fragment may name was renamed or removed since."""
        return self.class_names.items() <= class_names.items()


class Summaries:
    """Makes the ``provider_summaries`` object of an answer."""

    def __init__(self, kept: int = KEPT) -> None:
        self._most = kept
        self._kept = _Kept()
        self._lock = Lock()

    def render(
        self,
        connection: Connection,
        providers: Sequence[CandidateProvider],
        class_names: Mapping[int, str],
        shape: Shape,
        known: Usages,
    ) -> list[bytes]:
        """Return the JSON object of summaries by provider uuid, in the order given, in pieces.

        Usages that are ``known`` are not asked for again. Only the resources are filled in: to look
        for their places in whole summaries takes ten times as long.
        """
        fragments = self._current(connection, providers, class_names)
        used = _used(connection, fragments, shape, known)
        told: list[bytes] = []
        for some in batches(fragments, AT_ONCE):
            pieces = _told(some, used, shape)
            told += pieces if len(fragments) <= AT_ONCE else [b"".join(pieces)]
        if told:
            told[0] = told[0].removeprefix(b",")
        return [b"{", *told, b"}"]

    def _current(
        self,
        connection: Connection,
        providers: Sequence[CandidateProvider],
        class_names: Mapping[int, str],
    ) -> Sequence[Fragment]:
        """Return a fragment of each provider, loading in three statements those not kept."""
        kept = self._kept
        known = kept.fragments if kept.agrees_with(class_names) else {}
        found: dict[int, Fragment] = {}
        lacking = []
        for provider in providers:
            fragment = known.get(provider.id)
            if fragment is not None and fragment.provider == provider:
                found[provider.id] = fragment
            else:
                lacking.append(provider)
        if lacking:
            loaded = _load(connection, lacking, class_names)
            found.update(loaded)
            self._keep(loaded, class_names)
        return [found[provider.id] for provider in providers]

    def _keep(self, loaded: Mapping[int, Fragment], class_names: Mapping[int, str]) -> None:
        with self._lock:
            kept = self._kept
            if kept.class_names != class_names:
                agrees = kept.agrees_with(class_names)
                kept = _Kept(class_names, kept.fragments if agrees else {})
            if len(kept.fragments) + len(loaded) > self._most:
                kept = _Kept(class_names)
            kept.fragments.update(loaded)
            self._kept = kept


def _told(
    fragments: Iterable[Fragment], used: Mapping[int, tuple[int, ...]], shape: Shape
) -> list[bytes]:
    """Return the summaries of these, each of which begins with a comma, in pieces."""
    if not shape.is_newest:
        return [one.summary(used[one.provider.id], shape) for one in fragments]
    told: list[bytes] = []
    for one in fragments:
        resources = one.resources.all % used[one.provider.id]
        told += (one.opening, resources, one.traits, one.tree)
    return told


def _load(
    connection: Connection,
    providers: Sequence[CandidateProvider],
    class_names: Mapping[int, str],
) -> dict[int, Fragment]:
    by_id = {provider.id: provider for provider in providers}
    resources: dict[int, dict[int, tuple[str, int]]] = {key: {} for key in by_id}
    carried: dict[int, str] = dict.fromkeys(by_id, "")
    for batch in batches(by_id):
        for key, class_id, total, reserved, ratio in connection.execute(
            _inventories_of(connection, batch)
        ).all():
            if class_id not in class_names:
                # Made since the names were read: told as if it were not there yet, and not kept.
                by_id[key] = by_id[key]._replace(generation=_NEVER)
                continue
            inventory = Inventory(
                resource_class=class_names[class_id],
                total=total,
                reserved=reserved,
                allocation_ratio=ratio,
            )
            resources[key][class_id] = (inventory.resource_class, inventory.capacity)
        carried.update(row for row in connection.execute(_traits_of(connection, batch)).all())
    # Asked after the ids, so that each of them has a name.
    used_again = uses_ids_again(connection, resource_providers)
    rows = connection.execute(_TRAIT_NAMES.add_columns(used_again)).all()
    if any(again for *_, again in rows):
        by_id = {key: provider._replace(generation=_NEVER) for key, provider in by_id.items()}
    names = {key: name for key, name, _ in rows}
    told = {ids: _trait_list(ids, names) for ids in set(carried.values())}
    return {
        key: _fragment(provider, resources[key], told[carried[key]])
        for key, provider in by_id.items()
    }


def _trait_list(ids: str, names: Mapping[int, str]) -> bytes:
    """Return the piece that tells the traits of these ids, which stand between commas.

    They are in the order of their ids, as OpenStack placement usually has them.
    """
    found = (names.get(key) for key in sorted(int(key) for key in ids.split(",") if key))
    return b'},"traits":' + orjson.dumps([name for name in found if name])


def _fragment(
    provider: CandidateProvider, resources: Mapping[int, tuple[str, int]], told: bytes
) -> Fragment:
    parent = f'"{provider.parent_uuid}"' if provider.parent_uuid else "null"
    tree = f',"parent_provider_uuid":{parent},"root_provider_uuid":"{provider.root_uuid}"}}'
    return Fragment(
        provider=provider,
        classes=tuple(resources),
        opening=f',"{provider.uuid}":{{"resources":{{'.encode(),
        resources=_resources(tuple(resources.values())),
        traits=told,
        tree=tree.encode(),
    )


@lru_cache(maxsize=10_000)  # hosts of one kind share them
def _resources(capacities: tuple[tuple[str, int], ...]) -> Resources:
    each = tuple(
        orjson.dumps(name).replace(b"%", b"%%") + b':{"capacity":%d,"used":%%d}' % capacity
        for name, capacity in capacities
    )
    return Resources(each, b",".join(each))


def _inventories_of(
    connection: Connection, ids: Sequence[int]
) -> Select[int, int, int, int, float]:
    owned = inventories.c
    return (
        select(
            owned.resource_provider_id,
            owned.resource_class_id,
            owned.total,
            owned.reserved,
            owned.allocation_ratio,
        )
        .where(among(connection, owned.resource_provider_id, ids))
        .order_by(owned.resource_class_id)
    )


def _traits_of(connection: Connection, ids: Sequence[int]) -> Select[int, str]:
    """Return the query of the ids of a provider's traits: one row, where each would be forty."""
    carried = resource_provider_traits.c
    return (
        select(
            carried.resource_provider_id,
            func.aggregate_strings(cast(carried.trait_id, String), ","),
        )
        .where(among(connection, carried.resource_provider_id, ids))
        .group_by(carried.resource_provider_id)
    )


def _used(
    connection: Connection, fragments: Sequence[Fragment], shape: Shape, known: Usages
) -> Mapping[int, tuple[int, ...]]:
    """Return what is used of each class that a provider has, by provider id, in their order."""
    rest = {
        fragment.provider.id: fragment
        for fragment in fragments
        if fragment.classes != known.classes or fragment.provider.id not in known.amounts
    }
    if not rest:
        return known.amounts
    summed = _sums(connection, list(rest), shape.classes)
    return {
        **known.amounts,
        **{
            key: tuple([summed[one].get(key, 0) for one in fragment.classes])
            for key, fragment in rest.items()
        },
    }


def _sums(
    connection: Connection, ids: Sequence[int], classes: Iterable[int] | None
) -> Mapping[int, Mapping[int, int]]:
    """Return what is used of each class, by provider id."""
    held = allocations.c
    place = (held.resource_provider_id, held.resource_class_id)
    # MariaDB sums to a decimal; and several allocations may be more than a column of one holds.
    summed = func.sum(held.used).cast(BigInteger)
    statement = select(*place, summed).group_by(*place)
    if classes is not None:
        statement = statement.where(held.resource_class_id.in_(sorted(classes)))
    found: dict[int, dict[int, int]] = defaultdict(dict)
    for batch in batches(ids):
        some = connection.execute(
            statement.where(among(connection, held.resource_provider_id, batch))
        )
        for rows in some.partitions(AT_ONCE):
            for provider, key, used in rows:
                found[key][provider] = used
    return found
