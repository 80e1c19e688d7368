# SPDX-License-Identifier: Apache-2.0
"""Nearest amounts of a resource class that fit into provider trees."""

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from placement_sched.candidates.columns import ProviderColumns, whole_capacities
from placement_sched.candidates.explain import SearchRun
from placement_sched.candidates.explain_stages import CheckedTrees, Stage
from placement_sched.db.sql import select_in_batches
from placement_sched.db.tables import resource_providers

_Numbers = NDArray[np.int64]


def uuids_of(connection: Connection, ids: Collection[int]) -> dict[int, str]:
    """Return the uuids of the providers with these ids."""
    columns = resource_providers.c
    query = resource_providers.select().with_only_columns(columns.id, columns.uuid)
    return dict(map(tuple, select_in_batches(connection, query, columns.id, ids)))


def nearest_amounts(run: SearchRun, term: tuple[str, str], limit: int) -> Mapping[int, int]:
    """Return for each tree the fitting amount nearest to the requested amount.

    ``term`` is the name of the requested amount in the query. The result maps root ids to amounts,
    for the ``limit`` trees with the nearest amounts. The amount of a tree is the largest amount
    below the requested amount that fits. If none fits, it is the smallest amount above. Only trees
    without candidates that meet all other constraints are considered. With the new amount, their
    providers may still not serve together.
    """
    checked = CheckedTrees.of(run.source, run.search)
    stage = next(item for item in checked.stages if (item.kind, item.detail) == term)
    uses, amount = checked.uses, stage.constraint.amount
    class_id = run.search.names.classes[stage.constraint.resource_class]
    with run.source.held(uses.ids.tolist()) as (cloud, _):
        below, above = _fitting_amounts(cloud, uses.ids, class_id, amount)
    amounts_by_tree = _find_best(checked, stage, below, np.maximum)
    if not amounts_by_tree.any():
        amounts_by_tree = _find_best(checked, stage, above, np.minimum)
    candidate_roots = run.taken
    amounts_by_tree[[uuid in candidate_roots for uuid in uses.root_uuids]] = 0
    trees = np.flatnonzero(amounts_by_tree)
    order = np.lexsort((uses.root_ids[trees], np.abs(amounts_by_tree[trees] - amount)))[:limit]
    ids, amounts = uses.root_ids[trees[order]], amounts_by_tree[trees[order]]
    return dict(zip(ids.tolist(), amounts.tolist(), strict=True))


def _find_best(checked: CheckedTrees, stage: Stage, amounts: _Numbers, best: np.ufunc) -> _Numbers:
    """Return for each tree the best amount that passes all stages, 0 for none."""
    met = checked.met.copy()
    met[stage.index] = amounts > 0
    outcomes, remaining = replace(checked, met=met).outcomes()
    uses, (slot,) = checked.uses, stage.slots
    passing = np.flatnonzero(remaining[slot])
    selected = np.zeros(len(uses), np.int64)
    selected[uses.trees[passing]] = amounts[passing]
    best.at(selected, uses.trees[passing], amounts[passing])
    for outcome in outcomes:
        selected[outcome.rejected] = 0
    return selected


def _fitting_amounts(
    cloud: ProviderColumns, ids: _Numbers, class_id: int, requested: int
) -> tuple[_Numbers, _Numbers]:
    """Return for each provider the nearest smaller and larger fitting amount.

    0 means that no amount fits. The rules are the same as in ``largest_below`` and
    ``smallest_above`` of :mod:`placement_sched.candidates.explain`.
    """
    below, above = np.zeros(len(ids), np.int64), np.zeros(len(ids), np.int64)
    if class_id not in cloud.classes:
        return below, above
    is_present, rows = cloud.places_of(ids)
    stock = cloud.classes[class_id].stock
    positions, has_inventory = stock.places(rows)
    uses = np.flatnonzero(is_present)[has_inventory]
    used, min_unit, max_unit, step = (
        stock.values[name][positions[has_inventory]].astype(np.int64)
        for name in ("used", "min_unit", "max_unit", "step_size")
    )
    capacity = whole_capacities(stock.values["capacity"][positions[has_inventory]])
    step = np.maximum(step, 1)
    max_amount = np.minimum(capacity - used, max_unit)
    largest = np.minimum(max_amount, requested - 1)
    largest -= largest % step
    below[uses] = np.where(largest >= np.maximum(min_unit, 1), largest, 0)
    smallest = np.maximum(min_unit, requested + 1)
    smallest += -smallest % step
    above[uses] = np.where(smallest <= max_amount, smallest, 0)
    return below, above
