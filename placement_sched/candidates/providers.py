# SPDX-License-Identifier: Apache-2.0
"""Provider columns for the search and its explanation, cached or loaded.

:class:`CachedProviders` reads the provider cache. ``LoadedProviders`` (in ``loader``) loads rows
for a request. The same code evaluates the columns of both classes.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from random import Random
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from placement_sched.candidates import constraints
from placement_sched.candidates.columns import (
    Mask,
    ProviderColumns,
    RowNumbers,
    truncate_capacities,
)
from placement_sched.candidates.constraints import ConstraintEvaluator, CountedRoot
from placement_sched.candidates.request import ResolvedNames, Search, Topology, check_names
from placement_sched.candidates.tree_index import TreeIndex
from placement_sched.model.candidates_query import CandidateProvider, CandidatesQuery

#: Rows in the first block to evaluate, per candidate that the limit allows, and growth factor of
#: each further block.
_BLOCK, _GROWTH = 8, 8
#: The fields of an inventory in the Placement API.
INVENTORY_FIELDS = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio")
InventoryValues = tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderContents:
    """The contents of providers that summaries show, by provider id.

    ``amounts`` has class, capacity and used amount. ``traits`` has keys of ``trait_sets``.
    """

    amounts: Mapping[int, Sequence[tuple[str, int, int]]]
    traits: Mapping[int, Hashable]
    trait_sets: Mapping[Hashable, Sequence[str]]


class ProviderSource(ABC):
    """Source of columns for a search, without SQL if ``reads_cheaply``."""

    reads_cheaply: bool

    @abstractmethod
    def open_columns(
        self,
        providers: Iterable[int] = (),
        roots: Collection[int] = (),
        *,
        whole: bool = False,
        with_names: bool = False,
    ) -> AbstractContextManager[tuple[ProviderColumns, TreeIndex]]:
        """Return columns and tree index, locked against other threads.

        The columns contain at least the providers with these ids, and the trees of these roots with
        all providers that share with the trees. With ``whole``, they contain all providers, and
        with ``with_names`` the names of all resource classes and traits.
        """

    @abstractmethod
    def resolve(self, query: CandidatesQuery) -> ResolvedNames:
        """Return the ids of all names of a query.

        Raises :class:`UnknownResourceClassOrTrait`.
        """

    @abstractmethod
    def map_ids(self, uuids: Collection[str]) -> Mapping[str, int]:
        """Map the uuids of providers to their ids."""

    def find_single_providers(
        self, query: CandidatesQuery, names: ResolvedNames, limit: int | None
    ) -> tuple[CandidateProvider, ...]:
        """Return the first providers, sorted by id, that serve a single group."""
        with self.open_columns(whole=True) as (columns, index):
            evaluator = ConstraintEvaluator(index, names)
            (group,) = query.groups
            if group.in_tree is not None:
                tree_rows = evaluator.find_tree_rows(group.in_tree)
                return tuple(
                    columns.describe_providers(
                        tree_rows[_compute_group_mask(evaluator, query, tree_rows)][:limit]
                    )
                )
            providers: list[CandidateProvider] = []
            start, size = 0, len(columns) if limit is None else _BLOCK * limit
            while start < len(columns) and (limit is None or len(providers) < limit):
                block = slice(start, min(start + size, len(columns)))
                rows = np.flatnonzero(_compute_group_mask(evaluator, query, block)) + start
                rows = rows[columns.providers.roots[rows] != 0]
                if limit is not None:
                    rows = rows[: limit - len(providers)]
                providers += columns.describe_providers(rows.astype(np.int32))
                start, size = block.stop, size * _GROWTH
        return tuple(providers)

    def _find_single_provider_ids(
        self, query: CandidatesQuery, names: ResolvedNames
    ) -> Sequence[int]:
        with self.open_columns(whole=True) as (columns, index):
            serving = _compute_group_mask(
                ConstraintEvaluator(index, names), query, slice(0, len(columns))
            )
            return _list_ids(columns, np.flatnonzero(serving).astype(np.int32))

    def sample_single_providers(
        self, query: CandidatesQuery, names: ResolvedNames, limit: int | None, random: Random
    ) -> tuple[CandidateProvider, ...]:
        """Return a uniform sample of the providers that serve a single group."""
        ids = self._find_single_provider_ids(query, names)
        sample = random.sample(ids, len(ids) if limit is None else min(limit, len(ids)))
        by_id = {provider.id: provider for provider in self.select_serving(query, names, sample)}
        return tuple([by_id[key] for key in sample if key in by_id])

    def select_serving(
        self, query: CandidatesQuery, names: ResolvedNames, ids: Collection[int]
    ) -> tuple[CandidateProvider, ...]:
        """Return which of these providers serve a single group, sorted by id."""
        with self.open_columns(ids) as (columns, index):
            rows = np.sort(columns.find_rows(ids))
            return tuple(
                columns.describe_providers(
                    rows[_compute_group_mask(ConstraintEvaluator(index, names), query, rows)]
                )
            )

    def list_providers(self, ids: Collection[int]) -> tuple[CandidateProvider, ...]:
        """Return the providers with these ids, in the order of ``ids``."""
        with self.open_columns(ids) as (columns, _):
            rows = np.sort(columns.find_rows(ids))
            by_id = {provider.id: provider for provider in columns.describe_providers(rows)}
        return tuple([by_id[key] for key in ids if key in by_id])

    def list_tree_providers(self, ids: Collection[int]) -> tuple[CandidateProvider, ...]:
        """Return all providers of the trees of these providers, sorted by id."""
        with self.open_columns(ids) as (columns, _):
            roots = np.unique(columns.providers.roots[columns.find_rows(ids)])
        roots = roots[roots != 0]
        with self.open_columns(roots=roots.tolist()) as (columns, index):
            return tuple(columns.describe_providers(index.find_tree_rows(roots)))

    def find_roots(self, search: Search, limit: int | None = None, after: int = 0) -> list[int]:
        """Return the first roots above id ``after`` that meet ``root_required``."""
        with self.open_columns(whole=True) as (columns, index):
            return _list_ids(columns, constraints.find_roots(index, search, after)[:limit])

    def find_serving_roots(
        self, search: Search, limit: int | None = None, after: int = 0
    ) -> list[int]:
        """Return the first root ids above ``after`` whose trees may serve.

        Every slot has a provider that can serve it, but the providers may not serve together.
        """
        with self.open_columns(whole=True) as (columns, index):
            return _list_ids(columns, constraints.find_serving_roots(index, search, after)[:limit])

    def read_free_columns(
        self, providers: Sequence[int], classes: Collection[int]
    ) -> Mapping[int, NDArray[np.int64]]:
        """Map each class to the remaining capacities of the providers.

        The capacities are in the order of ``providers``, and 0 for a provider without an inventory.
        """
        ids = np.fromiter(providers, np.int64, len(providers))
        free_by_class = {class_id: np.zeros(len(ids), np.int64) for class_id in classes}
        with self.open_columns(providers) as (columns, _):
            exists, rows = columns.find_existing_rows(ids)
            indexes = np.flatnonzero(exists)
            for class_id, column in free_by_class.items():
                if (inventory := columns.classes.get(class_id)) is None:
                    continue
                has_inventory, (capacity, used) = inventory.select_values(rows, "capacity", "used")
                column[indexes[has_inventory]] = truncate_capacities(capacity) - used
        return free_by_class

    def read_contents(self, ids: Collection[int]) -> ProviderContents:
        """Return the contents of these providers that summaries show."""
        with self.open_columns(ids, with_names=True) as (columns, _):
            keys = np.sort(np.fromiter(ids, np.int64, len(ids)))
            exists, rows = columns.find_existing_rows(keys)
            present = keys[exists].tolist()
            class_names = {key: name for name, key in columns.names.classes.items()}
            amounts: dict[int, list[tuple[str, int, int]]] = {key: [] for key in ids}
            # A class that was created after the names were read is omitted.
            for class_id in sorted(columns.classes.keys() & class_names.keys()):
                name = class_names[class_id]
                has_inventory, (capacity, used) = columns.classes[class_id].select_values(
                    rows, "capacity", "used"
                )
                owners = keys[exists][has_inventory].tolist()
                for key, number, in_use in zip(
                    owners, capacity.tolist(), used.tolist(), strict=True
                ):
                    amounts[key].append((name, int(number), in_use))
            row_words = [row.tobytes() for row in columns.traits.words[rows]]
            traits = dict.fromkeys(ids, b"") | dict(zip(present, row_words, strict=True))
            names = {key: name for name, key in columns.names.traits.items()}
            decode = columns.traits.decode_trait_ids
            sets: dict[Hashable, Sequence[str]] = {
                word: [names[trait] for trait in decode(word) if trait in names]
                for word in {b"", *row_words}
            }
            return ProviderContents(amounts=amounts, traits=traits, trait_sets=sets)

    def map_trait_ids(self) -> Mapping[str, int]:
        """Map the names of all traits to their ids."""
        with self.open_columns(with_names=True) as (columns, _):
            return columns.names.traits

    def map_roots_by_trait(
        self, traits: Mapping[str, int], roots: Collection[int]
    ) -> Mapping[str, frozenset[int]]:
        """Map each trait to the roots of trees with the trait on any provider.

        ``traits`` maps names to ids. The result may contain roots that are not in ``roots``.
        """
        with self.open_columns(roots=roots) as (columns, _):
            every, root_ids = slice(0, len(columns)), columns.providers.roots
            return {
                name: frozenset(
                    root_ids[columns.traits.has_any_trait(frozenset({key}), every)].tolist()
                )
                for name, key in traits.items()
            }

    def read_inventories(self, ids: Collection[int]) -> Mapping[int, Mapping[str, InventoryValues]]:
        """Map provider id and class name to values of :data:`INVENTORY_FIELDS`."""
        with self.open_columns(ids, with_names=True) as (columns, _):
            inventories: dict[int, dict[str, InventoryValues]] = {key: {} for key in ids}
            keys = np.sort(np.fromiter(ids, np.int64, len(ids)))
            exists, rows = columns.find_existing_rows(keys)
            for name, class_id in columns.names.classes.items():
                if (inventory := columns.classes.get(class_id)) is None:
                    continue
                has_inventory, values = inventory.select_values(rows, *INVENTORY_FIELDS)
                present = keys[exists][has_inventory].tolist()
                for key, *amounts in zip(
                    present, *(column.tolist() for column in values), strict=True
                ):
                    inventories[key][name] = tuple(amounts)
            return inventories


class ColumnHolder(Protocol):
    """All providers of the cloud in memory, such as the provider cache."""

    def lock_columns(self) -> AbstractContextManager[tuple[ProviderColumns, TreeIndex]]:
        """Lock the columns and their tree index against other threads."""


class CachedProviders(ProviderSource):
    """The source of providers that locks and reads the provider cache."""

    reads_cheaply = True

    def __init__(self, cache: ColumnHolder) -> None:
        self.cache = cache

    def open_columns(
        self, *_: object, **_parts: object
    ) -> AbstractContextManager[tuple[ProviderColumns, TreeIndex]]:
        """Lock the cache, which has all providers and names."""
        return self.cache.lock_columns()

    def resolve(self, query: CandidatesQuery) -> ResolvedNames:
        """Return the ids of all names of a query."""
        with self.cache.lock_columns() as (columns, index):
            names, topology = columns.names, Topology(index.has_nested, bool(len(index.sharers)))
        return check_names(
            query, ResolvedNames(names.classes, names.traits, names.aggregates, topology)
        )

    def map_ids(self, uuids: Collection[str]) -> Mapping[str, int]:
        """Map the uuids of providers to their ids."""
        with self.cache.lock_columns() as (columns, _):
            return columns.map_ids(uuids)


def _list_ids(columns: ProviderColumns, rows: RowNumbers) -> list[int]:
    ids: list[int] = columns.providers.ids[rows].tolist()
    return ids


def _compute_group_mask(
    evaluator: ConstraintEvaluator, query: CandidatesQuery, rows: slice | RowNumbers
) -> Mask:
    """Return a mask of the rows that can serve the only group of a query."""
    (group,) = query.groups
    mask = evaluator.can_serve(group, CountedRoot.OWN, rows)
    evaluator.apply_trait_terms(query.root, rows, mask)
    return mask
