"""Provider trees: which may serve a request, and which of their providers serve which slot."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from placement_sched.candidates.constraints import ConstraintEvaluator, CountedRoot
from placement_sched.candidates.slots import SlotGroup, TreeSearch
from placement_sched.mirror.columns import Mask, RowNumbers, SomeRows
from placement_sched.mirror.shape import CloudShape

_Ids = NDArray[np.int64]

#: Maximum number of sets of traits that are checked for each tree before its slots.
_SETS = 16
#: So many levels above providers that serve are looked at, to leave out what is not above any.
_LEVELS = 8
#: Where only one tree in so many is left, no others are looked at for the rest of the request.
_FEW = 16
#: So many pairs of a provider that shares and a tree, for each slot, are noted at once.
_FLAGS = 20_000_000


class TreeProvider(NamedTuple):
    """A provider of a tree, and the positions of the slots that it can serve."""

    id: int
    root: int
    parent: int | None
    uuid: str
    generation: int
    serves: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeColumns:
    """The providers of some trees as columns: one tree after the other by root, each by id.

    Sharing providers are listed with each tree that they share with; ``roots`` has the root of that
    tree. ``parents`` are ids, 0 for none. ``serves`` has a column for each of the search's
    ``equal_slots``, ``covers`` one for each set of traits that a tree must have. ``pairs`` is the
    number of pairs of a sharing provider and a tree.
    """

    ids: NDArray[np.int64]
    roots: NDArray[np.int64]
    parents: NDArray[np.int64]
    uuids: NDArray[np.object_]
    serves: NDArray[np.bool_]
    covers: NDArray[np.bool_]
    pairs: int


#: The ids of a sharing provider and of the root of a tree, then for each set of aggregates of the
#: search whether the root is in one of them.
SharingPair = Sequence[int]


def roots(shape: CloudShape, search: TreeSearch, after: int) -> RowNumbers:
    """Return the rows of the roots with ids above ``after`` that are as required."""
    rows = shape.roots
    if after:
        rows = rows[np.searchsorted(shape.cloud.providers.ids[rows], after, "right") :]
    found = np.ones(len(rows), np.bool_)
    ConstraintEvaluator(shape, search.names).having(search.root, rows, found)
    return rows[found]


def serving_roots(shape: CloudShape, search: TreeSearch, after: int) -> RowNumbers:
    """Return the rows of the roots with ids above ``after`` whose trees may serve."""
    cloud, evaluator = shape.cloud, ConstraintEvaluator(shape, search.names)
    count = evaluator.number_with_room
    found, rows = roots(shape, search, after), slice(0, len(cloud))
    # A provider that shares might bring a trait.
    for choices in search.rules.trait_choices[: 0 if search.names.topology.sharing else _SETS]:
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
        if len(found) * _FEW < (before if few is not None else len(shape.roots)):
            few = shape.rows_of_trees(cloud.providers.ids[found])
    return found


def _served(
    shape: CloudShape, slot: SlotGroup, evaluator: ConstraintEvaluator, rows: SomeRows
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
        found[anchors[serves & _admits(slot, evaluator, anchors)]] = True
    return found


def _counted(slot: SlotGroup, counted: CountedRoot) -> CountedRoot:
    """Return whose aggregates count for a slot: of a group with a suffix the provider's alone."""
    return CountedRoot.NONE if slot.slot.suffix else counted


def _admits(slot: SlotGroup, evaluator: ConstraintEvaluator, roots: RowNumbers) -> Mask:
    """Return for each of these roots whether what shares with it may serve a slot."""
    forbidden = slot.group.aggregates.forbidden
    if slot.slot.suffix or not forbidden:
        return np.ones(len(roots), np.bool_)
    found: Mask = ~evaluator.members_of(forbidden)[roots]
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


def tree_columns(shape: CloudShape, search: TreeSearch, rows: RowNumbers) -> TreeColumns | None:
    """Return the same as columns, one tree after the other with what shares with it, each by id.

    Returns None where providers that share may serve all slots, and so several trees alike, and
    where very many share with trees.
    """
    offers: Mask | None = None
    if search.names.topology.sharing:
        offers = _offers(shape, search)
        if offers is None:
            return None
    rows, masks = _serving(shape, search, rows, CountedRoot.OWN)
    providers, traits = shape.cloud.providers, shape.cloud.traits
    # Trees that changed since their roots were found may have lost these.
    kept = np.isin(providers.roots[rows], providers.ids[rows])
    kept &= _needed(providers.ids[rows], providers.roots[rows], providers.parents[rows], masks)
    rows, masks = rows[kept], masks[kept]
    trees, pairs = providers.roots[rows], 0
    if offers is not None:
        own_roots = rows[providers.ids[rows] == trees]
        sharers, anchors, serves, pairs = _sharing(shape, search, offers, own_roots)
        rows, masks = np.concatenate((rows, sharers)), np.concatenate((masks, serves))
        trees = np.concatenate((trees, providers.ids[anchors]))
    order = np.lexsort((rows, trees))
    rows, masks = rows[order], masks[order]
    covers = np.zeros((len(rows), len(search.rules.trait_choices)), np.bool_)
    for bit, choices in enumerate(search.rules.trait_choices):
        covers[:, bit] = traits.any_of(choices, rows)
    covers &= masks.any(axis=1, keepdims=True)
    return TreeColumns(
        ids=providers.ids[rows],
        roots=trees[order],
        parents=providers.parents[rows],
        uuids=providers.uuids[rows],
        serves=masks,
        covers=covers,
        pairs=pairs,
    )


def _offers(shape: CloudShape, search: TreeSearch) -> Mask | None:
    """Return which slots each of the ``distinct_sharers`` could serve.

    Returns None where all of them together could serve every slot, or where too many pairs share.
    """
    if len(shape.sharing[0]) * len(search.equal_slots) > _FLAGS:
        return None
    offers = _masks(shape, search, shape.distinct_sharers[0], CountedRoot.OTHER)
    return None if offers.any(axis=0).all() else offers


def _sharing(
    shape: CloudShape, search: TreeSearch, offers: Mask, roots: RowNumbers
) -> tuple[RowNumbers, RowNumbers, Mask, int]:
    """Return the rows of providers that share with these roots and serve, pair by pair.

    Beside them: the rows of the roots, which slots each serves there, and how many pairs share.
    """
    evaluator, pairs = ConstraintEvaluator(shape, search.names), shape.sharing_with(roots)
    sharers, anchors = (rows[pairs] for rows in shape.sharing)
    masks = offers[shape.distinct_sharers[1][pairs]]
    for bit, slot in enumerate(search.distinct_slots):
        masks[:, bit] &= _admits(slot, evaluator, anchors)
    some = masks.any(axis=1)
    return sharers[some], anchors[some], masks[some], len(pairs)


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
    masks = _masks(shape, search, rows, counted)
    if search.rules.subtrees:  # where providers above others are looked at
        return rows, masks
    needed = masks.any(axis=1)
    needed |= shape.cloud.providers.ids[rows] == shape.cloud.providers.roots[rows]
    return rows[needed], masks[needed]


def _masks(shape: CloudShape, search: TreeSearch, rows: RowNumbers, counted: CountedRoot) -> Mask:
    """Return for each of the rows which of ``equal_slots`` the provider could serve."""
    evaluator, slots = ConstraintEvaluator(shape, search.names), search.distinct_slots
    masks = np.zeros((len(rows), len(slots)), np.bool_)
    for bit, slot in enumerate(slots):
        masks[:, bit] = evaluator.serving(slot.group, _counted(slot, counted), rows)
    return masks
