"""Why a stage rejects a tree, in words.

Each reason is about the providers that it names, or about the root if it names none.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from sqlalchemy import Connection, select

from placement_sched.candidates.explain.stages import CheckedTrees, StageOutcome
from placement_sched.candidates.providers import ProviderSource
from placement_sched.candidates.search import Search
from placement_sched.db import tables
from placement_sched.db.sql import rows_among
from placement_sched.model.names import listed
from placement_sched.model.provider import Inventory, why_not
from placement_sched.store.placement import resource_providers
from placement_sched.store.placement.capacity import InventoryIds, UsedInventory

#: Maximum number of providers that a reason names.
_MAX_NAMED = 3
#: The columns of an inventory that its rooms are made of; the capacity stands for the total.
_STOCK = ("capacity", "used", "min_unit", "max_unit", "step_size")


class Rejection(NamedTuple):
    """A tree that a stage rejects, by its number, and the uses that the reason is about."""

    tree: int
    uses: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reasons:
    """Words for the rejections of some trees.

    ``rooms`` are the inventories that reasons are about, by provider and class; ``names`` are the
    names of the providers, by id. ``memberships`` are the aggregates of the search that providers
    are in, for advice. ``tree_names`` are the names of providers whose trees are requested, by
    uuid.
    """

    checked: CheckedTrees
    search: Search
    rooms: Mapping[InventoryIds, UsedInventory]
    names: Mapping[int, str]
    memberships: Mapping[int, frozenset[str]]
    tree_names: Mapping[str, str]

    @classmethod
    def of(
        cls,
        connection: Connection,
        source: ProviderSource,
        search: Search,
        checked: CheckedTrees,
        rejected: Sequence[tuple[StageOutcome, Sequence[Rejection]]],
        others: Collection[int] = (),
    ) -> "Reasons":
        """Return the words for these rejections; ``others`` are uses that advice may be about."""
        uses, classes = checked.uses, search.names.classes
        places: set[InventoryIds] = set()
        named: set[int] = set(others)
        for outcome, some in rejected:
            name = outcome.stage.constraint.resource_class
            about = {use for one in some for use in one.uses}
            named |= about
            if name:
                ids = uses.ids[list(about)].tolist()
                places.update((key, classes[name]) for key in ids)
        if not others:  # without advice roots are not named
            named -= set(uses.root_uses.tolist())
        ids = set(uses.ids[list(named)].tolist())
        advised = uses.ids[list(others)].tolist()
        requested = {classes[one] for group in search.query.groups for one, _ in group.resources}
        places.update((key, class_id) for key in advised for class_id in requested)
        return cls(
            checked,
            search,
            read_rooms(source, search, places),
            names_of(connection, ids),
            _memberships(source, search, advised) if others else {},
            resource_providers.names_of(
                connection, [one.in_tree for one in search.query.groups if one.in_tree]
            ),
        )

    def reason(self, outcome: StageOutcome, rejection: Rejection) -> str:
        """Return why a stage rejects a tree."""
        constraint = outcome.stage.constraint
        if outcome.stage.of_root:
            return constraint.reason
        root = int(self.checked.uses.root_uses[rejection.tree])
        if constraint.kind == "in_tree":
            name = self.tree_names.get(constraint.detail, constraint.detail)
            words = f"not in the tree of {name}"
            return words if root in rejection.uses else f"{self._listed(rejection.uses)}: {words}"
        if constraint.resource_class:
            return self._shortage(outcome, rejection, root)
        whole = self.checked.uses.of_tree(rejection.tree)
        number = whole.stop - whole.start
        if 1 < number == len(rejection.uses):
            return f"each of {number} providers: {constraint.reason}"
        if rejection.uses == (root,):
            return constraint.reason
        several = "each of " if len(rejection.uses) > 1 else ""
        return f"{several}{self._listed(rejection.uses)}: {constraint.reason}"

    def _shortage(self, outcome: StageOutcome, rejection: Rejection, root: int) -> str:
        """Return what providers lack of an amount: those that have any of the class."""
        constraint, uses = outcome.stage.constraint, rejection.uses
        having = [use for use in uses if self.room(outcome, use) is not None]
        if not having:
            words = f"{constraint.resource_class}: {why_not(None, 0, constraint.amount)}"
            return words if root in uses else f"{words} on {self._listed(uses)}"
        words = "; ".join(self._lacking(outcome, use, root) for use in having[:_MAX_NAMED])
        more = len(having) - _MAX_NAMED
        return f"{words}; and {more} more" if more > 0 else words

    def _lacking(self, outcome: StageOutcome, use: int, root: int) -> str:
        constraint, room = outcome.stage.constraint, self.room(outcome, use)
        inventory, used = (room.inventory, room.used) if room else (None, 0)
        words = f"{constraint.resource_class}: {why_not(inventory, used, constraint.amount)}"
        return words if use == root else f"{words} on {self.name(use)}"

    def room(self, outcome: StageOutcome, use: int) -> UsedInventory | None:
        """Return what the provider of a use has of the class of a stage."""
        class_id = self.search.names.classes[outcome.stage.constraint.resource_class]
        return self.rooms.get((int(self.checked.uses.ids[use]), class_id))

    def name(self, use: int) -> str:
        """Return the name of the provider of a use."""
        return self.names.get(int(self.checked.uses.ids[use]), "one provider")

    def _listed(self, uses: Sequence[int]) -> str:
        names = [self.name(use) for use in uses]
        if len(names) > _MAX_NAMED:
            names[_MAX_NAMED:] = [f"{len(names) - _MAX_NAMED} more"]
        return listed(names)


def rejections(
    checked: CheckedTrees, outcome: StageOutcome, trees: Sequence[int]
) -> list[Rejection]:
    """Return the rejections of these trees; a reason may be about the root in place of others."""
    uses, holds = checked.uses, checked.holds.get(outcome.stage.index)
    found = []
    for tree in trees:
        whole = uses.of_tree(tree)
        about = (np.flatnonzero(outcome.blamed[whole]) + whole.start).tolist()
        if holds is not None:
            root = int(uses.root_uses[tree])
            about = sorted({use if holds[use] else root for use in about})
        found.append(Rejection(tree, tuple(about)))
    return found


def _memberships(
    source: ProviderSource, search: Search, ids: Collection[int]
) -> dict[int, frozenset[str]]:
    """Return the aggregates named by a search that each of these providers is in itself."""
    found: dict[int, set[str]] = {key: set() for key in ids}
    with source.held(ids) as (cloud, shape):
        rows = np.sort(cloud.rows_of(found))
        keys = cloud.providers.ids[rows]
        for uuid in {uuid for group in search.query.groups for uuid in group.aggregates.uuids}:
            members = shape.members_of(search.names.aggregate_ids([uuid]))
            for key in keys[members[rows]].tolist():
                found[key].add(uuid)
    return {key: frozenset(some) for key, some in found.items()}


def read_rooms(
    source: ProviderSource, search: Search, places: Collection[InventoryIds]
) -> dict[InventoryIds, UsedInventory]:
    """Return what is at these places, and perhaps at more of the same providers.

    As the capacity rule has it: of an inventory whose total is all of its capacity.
    """
    rooms: dict[InventoryIds, UsedInventory] = {}
    if not places:
        return rooms
    ids, names = {provider for provider, _ in places}, search.names.class_names
    with source.held(ids) as (cloud, _):
        rows = np.sort(cloud.rows_of(ids))
        for class_id in {class_id for _, class_id in places} & cloud.classes.keys():
            stock = cloud.classes[class_id].stock
            at, there = stock.places(rows)
            columns = [stock.values[name][at[there]].tolist() for name in _STOCK]
            keys = cloud.providers.ids[rows[there]].tolist()
            for key, whole, used, least, most, step in zip(keys, *columns, strict=True):
                inventory = Inventory(
                    resource_class=names[class_id],
                    total=int(whole),
                    min_unit=least,
                    max_unit=most,
                    step_size=step,
                )
                rooms[key, class_id] = UsedInventory(inventory, used)
    return rooms


def names_of(connection: Connection, ids: Collection[int]) -> dict[int, str]:
    """Return the names of these providers, by id."""
    columns = tables.resource_providers.c
    rows = rows_among(connection, select(columns.id, columns.name), columns.id, ids)
    return {key: name or "one provider" for key, name in rows}
