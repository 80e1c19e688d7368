"""Provider trees as the mirror of this process has them: which may serve, and their providers.

The same as ``provider_trees`` has in SQL; property tests compare what both find.
"""

from itertools import chain

import numpy as np
from numpy.typing import NDArray

from placement_sched.candidates.mirrored_constraints import Constrained, CountedRoot
from placement_sched.candidates.slots import SlotGroup, TreeSearch
from placement_sched.candidates.source import TreeColumns, TreeProvider
from placement_sched.mirror.columns import Mask, RowNumbers, SomeRows
from placement_sched.mirror.shape import CloudShape

_Ids = NDArray[np.int64]

#: So many sets of traits that must be in a tree are asked about, as in ``provider_trees``.
_SETS = 16
#: So many levels above providers that serve are looked at, to leave out what is not above any.
_LEVELS = 8
#: Where only one tree in so many is left, no others are looked at for the rest of the request.
_FEW = 16


def roots(shape: CloudShape, search: TreeSearch, after: int) -> RowNumbers:
    """Return the rows of the roots with ids above ``after`` that are as required."""
    rows = shape.roots
    if after:
        rows = rows[np.searchsorted(shape.cloud.providers.ids[rows], after, "right") :]
    found = np.ones(len(rows), np.bool_)
    Constrained(shape, search.names).having(search.root, rows, found)
    return rows[found]


def serving_roots(shape: CloudShape, search: TreeSearch, after: int) -> RowNumbers:
    """Return the rows of the roots with ids above ``after`` whose trees may serve."""
    cloud, asked = shape.cloud, Constrained(shape, search.names)
    found, rows = roots(shape, search, after), slice(0, len(cloud))
    # A provider that shares might bring a trait.
    for choices in search.rules.trait_choices[: 0 if search.names.topology.sharing else _SETS]:
        found = found[_with_any(shape, cloud.traits.any_of(choices, rows), rows)[found]]
    slots = [search.slots[positions[0]] for positions in search.equal_slots]
    few: RowNumbers | None = None
    # What is asked of one tree leaves the fewest for the others.
    for slot in sorted(slots, key=lambda one: one.group.in_tree is None):
        if not len(found):
            break
        some: SomeRows = rows if few is None else few
        if few is None and slot.group.in_tree is not None:
            some = asked.rows_in_tree(slot.group.in_tree)
        before, found = len(found), found[_served(shape, slot, asked, some)[found]]
        if len(found) * _FEW < (before if few is not None else len(shape.roots)):
            few = shape.rows_of_trees(cloud.providers.ids[found])
    return found


def _served(shape: CloudShape, slot: SlotGroup, asked: Constrained, rows: SomeRows) -> Mask:
    """Return for each provider whether it is a root whose tree has one for a slot.

    It is one of these rows, or one that shares.
    """
    counted = CountedRoot.NONE if slot.slot.suffix else CountedRoot.OWN
    found = _with_any(shape, asked.serving(slot.group, counted, rows), rows)
    if asked.names.topology.sharing:
        counted = CountedRoot.NONE if slot.slot.suffix else CountedRoot.OTHER
        (_, anchors), (sharers, places) = shape.sharing, shape.distinct_sharers
        serves = asked.serving(slot.group, counted, sharers)[places]
        if slot.group.aggregates.forbidden and not slot.slot.suffix:
            serves &= ~asked.members_of(slot.group.aggregates.forbidden)[anchors]
        found[anchors[serves]] = True
    return found


def _with_any(shape: CloudShape, mask: Mask, rows: SomeRows) -> Mask:
    """Return for each provider whether it is the root of one of these rows of which ``mask`` is."""
    roots = shape.root_rows[mask if isinstance(rows, slice) else rows[mask]]
    found = np.zeros(len(shape.cloud), np.bool_)
    found[roots[roots >= 0]] = True
    return found


def tree_providers(
    shape: CloudShape, search: TreeSearch, rows: RowNumbers, counted: CountedRoot
) -> list[TreeProvider]:
    """Return the providers of these rows with the slots that each could serve."""
    rows, masks = _serving(shape, search, rows, counted)
    slots = search.equal_slots
    packed = np.packbits(masks, axis=1, bitorder="little")
    flags: list[int] = packed[:, 0].tolist()
    if packed.shape[1] > 1:
        flags = [int.from_bytes(one.tobytes(), "little") for one in packed]
    known: dict[int, tuple[int, ...]] = {}
    for value in set(flags):
        some = (slots[bit] for bit in range(len(slots)) if value >> bit & 1)
        known[value] = tuple(sorted(chain.from_iterable(some)))
    providers = shape.cloud.providers
    columns = zip(
        providers.ids[rows].tolist(),
        providers.roots[rows].tolist(),
        [parent or None for parent in providers.parents[rows].tolist()],
        providers.uuids[rows].tolist(),
        providers.generations[rows].tolist(),
        map(known.__getitem__, flags),
        strict=True,
    )
    return list(map(TreeProvider._make, columns))


def tree_columns(shape: CloudShape, search: TreeSearch, rows: RowNumbers) -> TreeColumns:
    """Return the same as columns, the providers of one tree after the other, each by id."""
    rows, masks = _serving(shape, search, rows, CountedRoot.OWN)
    providers, traits = shape.cloud.providers, shape.cloud.traits
    # Trees that changed since their roots were found may have lost these.
    kept = np.isin(providers.roots[rows], providers.ids[rows])
    kept &= _needed(providers.ids[rows], providers.roots[rows], providers.parents[rows], masks)
    order = np.argsort(providers.roots[rows], kind="stable")
    order = order[kept[order]]
    rows, masks = rows[order], masks[order]
    covers = np.zeros((len(rows), len(search.rules.trait_choices)), np.bool_)
    for bit, choices in enumerate(search.rules.trait_choices):
        covers[:, bit] = traits.any_of(choices, rows)
    covers &= masks.any(axis=1, keepdims=True)
    return TreeColumns(
        ids=providers.ids[rows],
        roots=providers.roots[rows],
        parents=providers.parents[rows],
        uuids=providers.uuids[rows],
        serves=masks,
        covers=covers,
    )


def _needed(ids: _Ids, roots: _Ids, parents: _Ids, masks: Mask) -> Mask:
    """Return which providers serve, are above one that does, or are roots; all in deep trees."""
    needed: Mask = masks.any(axis=1) | (ids == roots)
    for _ in range(_LEVELS):
        more = needed | np.isin(ids, parents[needed])
        if (more == needed).all():
            return needed
        needed = more
    return np.ones(len(ids), np.bool_)


def _serving(
    shape: CloudShape, search: TreeSearch, rows: RowNumbers, counted: CountedRoot
) -> tuple[RowNumbers, Mask]:
    """Return the rows, and which of ``equal_slots`` each could serve.

    Where the search does not ask for more, those are left out that serve none, but for roots.
    """
    asked, slots = Constrained(shape, search.names), search.equal_slots
    masks = np.zeros((len(rows), len(slots)), np.bool_)
    for bit, positions in enumerate(slots):
        slot = search.slots[positions[0]]
        own = CountedRoot.NONE if slot.slot.suffix else counted
        masks[:, bit] = asked.serving(slot.group, own, rows)
    if search.rules.subtrees:  # where providers above others are looked at
        return rows, masks
    needed = masks.any(axis=1)
    needed |= shape.cloud.providers.ids[rows] == shape.cloud.providers.roots[rows]
    return rows[needed], masks[needed]
