"""Provider summaries: the bulk of an answer, kept ready-made but for the usages.

What a provider has (capacities, traits) is kept as JSON fragments by provider id and generation,
since every change of it bumps the generation. Usages are read live, because deleting allocations
bumps none; so are parent and root, and the names of resource classes, which before microversion
1.7 could be changed. Bounded, per process, correct beside other writers.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

import orjson
from sqlalchemy import BigInteger, Connection, Select, func, select

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


@dataclass(frozen=True, slots=True)
class Fragment:
    """What a summary shows of one provider at one generation.

    ``capacities`` are ``(class id, capacity)`` in class order; ``traits`` is a JSON array.
    """

    generation: int
    capacities: tuple[tuple[int, int], ...]
    traits: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What the version asked shows: which classes (None: all), traits, and the tree."""

    classes: frozenset[int] | None
    traits: bool
    tree: bool


class Summaries:
    """Makes the ``provider_summaries`` object of an answer."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._fragments: dict[int, Fragment] = {}
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
        fragments = self._current(connection, providers)
        used = _usages(connection, [provider.id for provider in providers], shape.classes)
        openings = {key: b'"%s":{"capacity":' % name.encode() for key, name in class_names.items()}
        told = (
            _summary(provider, fragments[provider.id], used, openings, shape)
            for provider in providers
        )
        return b"{%s}" % b",".join(told)

    def _current(
        self, connection: Connection, providers: Sequence[CandidateProvider]
    ) -> Mapping[int, Fragment]:
        """Return a fragment of each provider, loading in two statements those not kept."""
        kept = self._fragments
        found = {
            provider.id: fragment
            for provider in providers
            if (fragment := kept.get(provider.id)) and fragment.generation == provider.generation
        }
        lacking = [provider for provider in providers if provider.id not in found]
        if lacking:
            loaded = _load(connection, lacking)
            found.update(loaded)
            self._keep(loaded)
        return found

    def _keep(self, loaded: Mapping[int, Fragment]) -> None:
        with self._lock:
            if len(self._fragments) + len(loaded) > self._kept:
                self._fragments = {}
            self._fragments.update(loaded)


def _load(connection: Connection, providers: Sequence[CandidateProvider]) -> dict[int, Fragment]:
    ids = [provider.id for provider in providers]
    capacities: dict[int, list[tuple[int, int]]] = {key: [] for key in ids}
    named: dict[int, list[str]] = {key: [] for key in ids}
    for batch in batches(ids):
        for row in connection.execute(_inventories_of(batch)):
            inventory = Inventory(
                resource_class="",
                total=row.total,
                reserved=row.reserved,
                allocation_ratio=row.allocation_ratio,
            )
            capacities[row.resource_provider_id].append((row.resource_class_id, inventory.capacity))
        for key, name in connection.execute(_traits_of(batch)):
            named[key].append(name)
    return {
        provider.id: Fragment(
            provider.generation,
            tuple(capacities[provider.id]),
            orjson.dumps(named[provider.id]),
        )
        for provider in providers
    }


def _inventories_of(ids: Sequence[int]) -> Select[Any]:
    return (
        select(inventories)
        .where(inventories.c.resource_provider_id.in_(ids))
        .order_by(inventories.c.resource_class_id)
    )


def _traits_of(ids: Sequence[int]) -> Select[int, str]:
    return (
        select(resource_provider_traits.c.resource_provider_id, traits.c.name)
        .join(traits, traits.c.id == resource_provider_traits.c.trait_id)
        .where(resource_provider_traits.c.resource_provider_id.in_(ids))
        .order_by(traits.c.name)
    )


def _usages(
    connection: Connection, ids: list[int], classes: Iterable[int] | None
) -> dict[tuple[int, int], int]:
    statement = select(
        allocations.c.resource_provider_id,
        allocations.c.resource_class_id,
        func.sum(allocations.c.used).cast(BigInteger),
    ).group_by(allocations.c.resource_provider_id, allocations.c.resource_class_id)
    if classes is not None:
        statement = statement.where(allocations.c.resource_class_id.in_(sorted(classes)))
    return {
        (provider, key): used
        for batch in batches(ids)
        for provider, key, used in connection.execute(
            statement.where(allocations.c.resource_provider_id.in_(batch))
        )
    }


def _summary(
    provider: CandidateProvider,
    fragment: Fragment,
    used: Mapping[tuple[int, int], int],
    openings: Mapping[int, bytes],
    shape: Shape,
) -> bytes:
    resources = b",".join(
        b'%s%d,"used":%d}' % (openings[key], capacity, used.get((provider.id, key), 0))
        for key, capacity in fragment.capacities
        if shape.classes is None or key in shape.classes
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
