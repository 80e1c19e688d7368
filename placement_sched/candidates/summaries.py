"""Provider summaries: the bulk of an answer, kept ready-made but for the usages.

What a provider has (capacities, traits) is kept as JSON fragments by provider id and generation,
since every change of it bumps the generation; by uuid too, since an old SQLite database may give
the id of a provider that is gone to a new one. Usages are read live, because deleting allocations
bumps none; so are parent and root, and the names of resource classes, which before microversion
1.7 could be changed. Bounded, per process, correct beside other writers.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock

import orjson
from sqlalchemy import Connection, Integer, Select, func, select

from placement_sched.db.among import among
from placement_sched.db.batches import batches
from placement_sched.db.tables import (
    allocations,
    inventories,
    resource_provider_traits,
    traits,
)
from placement_sched.model.candidate import CandidateProvider
from placement_sched.model.inventory import Inventory

#: How many providers' fragments a process keeps (some kilobytes each).
KEPT = 100_000
#: A generation that no provider has.
_NEVER = -1


@dataclass(frozen=True, slots=True)
class Fragment:
    """What a summary shows of one provider at one generation.

    ``classes`` are the ids of its resource classes and ``resources`` the JSON of each, with %d
    where the usage goes; ``whole`` is that of all of them. ``traits`` is a JSON array.
    """

    uuid: str
    generation: int
    classes: tuple[int, ...]
    resources: tuple[bytes, ...]
    whole: bytes
    traits: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What the version asked shows: which classes (None: all), traits, and the tree."""

    classes: frozenset[int] | None
    traits: bool
    tree: bool


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
    ) -> bytes:
        """Return the JSON object of summaries by provider uuid, in the order given."""
        if not providers:
            return b"{}"
        fragments = self._current(connection, providers, class_names)
        used = _usages(connection, [provider.id for provider in providers], shape.classes)
        told = [_summary(provider, fragments[provider.id], used, shape) for provider in providers]
        return b"{%s}" % b",".join(told)

    def _current(
        self,
        connection: Connection,
        providers: Sequence[CandidateProvider],
        class_names: Mapping[int, str],
    ) -> Mapping[int, Fragment]:
        """Return a fragment of each provider, loading in two statements those not kept."""
        kept = self._kept
        known = kept.fragments if kept.agrees_with(class_names) else {}
        found = {
            provider.id: fragment
            for provider in providers
            if (fragment := known.get(provider.id))
            and fragment.generation == provider.generation
            and fragment.uuid == provider.uuid
        }
        lacking = [provider for provider in providers if provider.id not in found]
        if lacking:
            loaded = _load(connection, lacking, class_names)
            found.update(loaded)
            self._keep(loaded, class_names)
        return found

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


def _load(
    connection: Connection,
    providers: Sequence[CandidateProvider],
    class_names: Mapping[int, str],
) -> dict[int, Fragment]:
    ids = [provider.id for provider in providers]
    resources: dict[int, list[tuple[int, bytes]]] = {key: [] for key in ids}
    named: dict[int, list[str]] = {key: [] for key in ids}
    uuids = {provider.id: provider.uuid for provider in providers}
    generations = {provider.id: provider.generation for provider in providers}
    for batch in batches(ids):
        for key, class_id, total, reserved, ratio in connection.execute(
            _inventories_of(connection, batch)
        ).all():
            if class_id not in class_names:
                # Made since the names were read: told as if it were not there yet, and not kept.
                generations[key] = _NEVER
                continue
            inventory = Inventory(
                resource_class=class_names[class_id],
                total=total,
                reserved=reserved,
                allocation_ratio=ratio,
            )
            resources[key].append((class_id, _resource(inventory)))
        for key, name in connection.execute(_traits_of(connection, batch)).all():
            named[key].append(name)
    return {
        key: Fragment(
            uuids[key],
            generation,
            tuple(class_id for class_id, _ in resources[key]),
            tuple(text for _, text in resources[key]),
            b",".join(text for _, text in resources[key]),
            orjson.dumps(named[key]),
        )
        for key, generation in generations.items()
    }


def _resource(inventory: Inventory) -> bytes:
    text = f'"{inventory.resource_class}":{{"capacity":{inventory.capacity},"used":%d}}'
    return text.encode()


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
    carried = resource_provider_traits.c
    return (
        select(carried.resource_provider_id, traits.c.name)
        .join(traits, traits.c.id == carried.trait_id)
        .where(among(connection, carried.resource_provider_id, ids))
        .order_by(traits.c.name)
    )


def _usages(
    connection: Connection, ids: list[int], classes: Iterable[int] | None
) -> dict[tuple[int, int], int]:
    held = allocations.c
    place = (held.resource_provider_id, held.resource_class_id)
    statement = select(*place, func.sum(held.used).cast(Integer)).group_by(*place)
    if classes is not None:
        statement = statement.where(held.resource_class_id.in_(sorted(classes)))
    return {
        (provider, key): used
        for batch in batches(ids)
        for provider, key, used in connection.execute(
            statement.where(among(connection, held.resource_provider_id, batch))
        ).all()
    }


def _summary(
    provider: CandidateProvider,
    fragment: Fragment,
    used: Mapping[tuple[int, int], int],
    shape: Shape,
) -> bytes:
    key = provider.id
    if shape.classes is None:
        resources = fragment.whole % tuple([used.get((key, one), 0) for one in fragment.classes])
    else:
        resources = b",".join(
            text % used.get((key, one), 0)
            for one, text in zip(fragment.classes, fragment.resources, strict=True)
            if one in shape.classes
        )
    told = b'"%s":{"resources":{%s}' % (provider.uuid.encode(), resources)
    if shape.traits:
        told += b',"traits":' + fragment.traits
    if shape.tree:
        parent = b'"%s"' % provider.parent_uuid.encode() if provider.parent_uuid else b"null"
        told += b',"parent_provider_uuid":%s,"root_provider_uuid":"%s"' % (
            parent,
            provider.root_uuid.encode(),
        )
    return told + b"}"
