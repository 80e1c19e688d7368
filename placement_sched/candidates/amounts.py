"""The amounts of a class that trees have room for, if they lack room for the requested amount."""

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from placement_sched.candidates.columns import ProviderColumns, whole_capacities
from placement_sched.candidates.explain import SearchRun
from placement_sched.candidates.explain_stages import CheckedTrees, Stage
from placement_sched.db.sql import rows_among
from placement_sched.db.tables import resource_providers

_Numbers = NDArray[np.int64]


def uuids_of(connection: Connection, ids: Collection[int]) -> dict[int, str]:
    """Return the uuids of the providers of these ids."""
    columns = resource_providers.c
    query = resource_providers.select().with_only_columns(columns.id, columns.uuid)
    return dict(map(tuple, rows_among(connection, query, columns.id, ids)))


def nearest_amounts(run: SearchRun, term: tuple[str, str], most: int) -> Mapping[int, int]:
    """Return by root the amount nearest to that of a term for which its tree has room.

    The largest below it, or, if no tree has any, the smallest above it; of the ``most`` trees that
    are nearest. Only of trees without candidates that meet all other constraints. Their providers
    may still not serve together.
    """
    checked = CheckedTrees.of(run.source, run.search)
    stage = next(one for one in checked.stages if (one.kind, one.detail) == term)
    uses, amount = checked.uses, stage.constraint.amount
    class_id = run.search.names.classes[stage.constraint.resource_class]
    with run.source.held(uses.ids.tolist()) as (cloud, _):
        below, above = _amounts(cloud, uses.ids, class_id, amount)
    found = _of_trees(checked, stage, below, np.maximum)
    if not found.any():
        found = _of_trees(checked, stage, above, np.minimum)
    taken = run.taken
    found[[uuid in taken for uuid in uses.root_uuids]] = 0
    trees = np.flatnonzero(found)
    order = np.lexsort((uses.root_ids[trees], np.abs(found[trees] - amount)))[:most]
    ids, amounts = uses.root_ids[trees[order]], found[trees[order]]
    return dict(zip(ids.tolist(), amounts.tolist(), strict=True))


def _of_trees(checked: CheckedTrees, stage: Stage, amounts: _Numbers, best: np.ufunc) -> _Numbers:
    """Return the best of these amounts of uses for each tree that serves with it, else 0."""
    met = checked.met.copy()
    met[stage.index] = amounts > 0
    outcomes, left = replace(checked, met=met).outcomes()
    uses, (slot,) = checked.uses, stage.slots
    some = np.flatnonzero(left[slot])
    found = np.zeros(len(uses), np.int64)
    found[uses.trees[some]] = amounts[some]
    best.at(found, uses.trees[some], amounts[some])
    for outcome in outcomes:
        found[outcome.rejected] = 0
    return found


def _amounts(
    cloud: ProviderColumns, ids: _Numbers, class_id: int, asked: int
) -> tuple[_Numbers, _Numbers]:
    """Return the largest amounts below and the smallest above that fit on providers, 0 for none.

    As ``changes.largest_below`` and ``smallest_above`` have each.
    """
    below, above = np.zeros(len(ids), np.int64), np.zeros(len(ids), np.int64)
    if class_id not in cloud.classes:
        return below, above
    known, rows = cloud.places_of(ids)
    stock = cloud.classes[class_id].stock
    at, there = stock.places(rows)
    uses = np.flatnonzero(known)[there]
    used, min_unit, max_unit, step = (
        stock.values[name][at[there]].astype(np.int64)
        for name in ("used", "min_unit", "max_unit", "step_size")
    )
    capacity = whole_capacities(stock.values["capacity"][at[there]])
    step = np.maximum(step, 1)
    most = np.minimum(capacity - used, max_unit)
    largest = np.minimum(most, asked - 1)
    largest -= largest % step
    below[uses] = np.where(largest >= np.maximum(min_unit, 1), largest, 0)
    smallest = np.maximum(min_unit, asked + 1)
    smallest += -smallest % step
    above[uses] = np.where(smallest <= most, smallest, 0)
    return below, above
