"""Which slots of a request providers serve, and which trees have a provider for every slot."""

import numpy as np

from placement_sched.candidates.constraints import ConstraintEvaluator, CountedRoot
from placement_sched.candidates.row_values import Mask, RowNumbers, SomeRows
from placement_sched.candidates.slots import SlotGroup, TreeSearch
from placement_sched.candidates.tree_index import TreeIndex

#: Maximum number of sets of traits that are checked for each tree before its slots.
_MAX_TRAIT_SETS = 16
#: If only one tree in this many is left, no others are checked for the rest of the request.
_SPARSE = 16


def roots(shape: TreeIndex, search: TreeSearch, after: int) -> RowNumbers:
    """Return the rows of the roots with ids above ``after`` that are as required."""
    rows = shape.roots
    if after:
        rows = rows[np.searchsorted(shape.cloud.providers.ids[rows], after, "right") :]
    found = np.ones(len(rows), np.bool_)
    ConstraintEvaluator(shape, search.names).having(search.root, rows, found)
    return rows[found]


def serving_roots(shape: TreeIndex, search: TreeSearch, after: int) -> RowNumbers:
    """Return the rows of the roots with ids above ``after`` whose trees may serve."""
    cloud, evaluator = shape.cloud, ConstraintEvaluator(shape, search.names)
    count = evaluator.number_with_room
    found, rows = roots(shape, search, after), slice(0, len(cloud))
    # A sharing provider might bring a trait.
    sets = search.rules.trait_choices[: 0 if search.names.topology.sharing else _MAX_TRAIT_SETS]
    for choices in sets:
        found = found[_with_any(shape, cloud.traits.any_of(choices, rows), rows)[found]]
    few: RowNumbers | None = None
    # A class that one tree has, or few providers, leaves the fewest for the others.
    for slot in sorted(search.distinct_slots, key=lambda one: count(one.group)):
        if not len(found):
            break
        some: SomeRows = rows if few is None else few
        if few is None and slot.group.in_tree is not None:
            some = evaluator.rows_in_tree(slot.group.in_tree)
        before, found = len(found), found[_served(shape, slot, evaluator, some)[found]]
        if len(found) * _SPARSE < (before if few is not None else len(shape.roots)):
            few = shape.rows_of_trees(cloud.providers.ids[found])
    return found


def masks_of(shape: TreeIndex, search: TreeSearch, rows: RowNumbers, counted: CountedRoot) -> Mask:
    """Return for each of the rows which of ``distinct_slots`` the provider could serve."""
    evaluator, slots = ConstraintEvaluator(shape, search.names), search.distinct_slots
    masks = np.zeros((len(rows), len(slots)), np.bool_)
    for bit, slot in enumerate(slots):
        masks[:, bit] = evaluator.serving(slot.group, _counted(slot, counted), rows)
    return masks


def admits(slot: SlotGroup, evaluator: ConstraintEvaluator, roots: RowNumbers) -> Mask:
    """Return for each of these roots whether what shares with it may serve a slot."""
    forbidden = slot.group.aggregates.forbidden
    if slot.slot.suffix or not forbidden:
        return np.ones(len(roots), np.bool_)
    found: Mask = ~evaluator.members_of(forbidden)[roots]
    return found


def _served(
    shape: TreeIndex, slot: SlotGroup, evaluator: ConstraintEvaluator, rows: SomeRows
) -> Mask:
    """Return for each provider whether it is a root whose tree has one for a slot.

    It is one of these rows, or one that shares.
    """
    counted = _counted(slot, CountedRoot.OWN)
    found = _with_any(shape, evaluator.serving(slot.group, counted, rows), rows)
    if evaluator.names.topology.sharing:
        (_, anchors), (sharers, places) = shape.sharing, shape.distinct_sharers
        counted = _counted(slot, CountedRoot.OTHER)
        serves = evaluator.serving(slot.group, counted, sharers)[places]
        found[anchors[serves & admits(slot, evaluator, anchors)]] = True
    return found


def _counted(slot: SlotGroup, counted: CountedRoot) -> CountedRoot:
    """Return whose aggregates count for a slot: of a group with a suffix the provider's alone."""
    return CountedRoot.NONE if slot.slot.suffix else counted


def _with_any(shape: TreeIndex, mask: Mask, rows: SomeRows) -> Mask:
    """Return for each provider whether it is the root of one of these rows of which ``mask`` is."""
    roots = shape.root_rows[mask if isinstance(rows, slice) else rows[mask]]
    found = np.zeros(len(shape.cloud), np.bool_)
    found[roots[roots >= 0]] = True
    return found
