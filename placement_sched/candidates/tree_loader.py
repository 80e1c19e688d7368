"""Read trees from their source with all that combining needs: which providers serve which slot."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from placement_sched.candidates.combine import Budget, FreeCapacity, ProviderTree, lacks_traits
from placement_sched.candidates.feasibility import trait_bits
from placement_sched.candidates.mirrored_trees import TreeColumns, TreeProvider
from placement_sched.candidates.providers import ProviderSource
from placement_sched.candidates.slots import TreeSearch, conditions_of
from placement_sched.db.sql import batches

#: So many conditions for each tree cost nothing, and so many more cost one step.
_FREE_CONDITIONS, _CONDITIONS = 50, 2
#: So many providers that may serve a slot are noted for one step.
_NOTED = 20
#: So many trees with which a provider shares are noted for one step.
_SHARED_NOTED = 5

#: The providers that could serve each slot of a tree, by id.
_Options = tuple[tuple[int, ...], ...]
_Slots = TypeVar("_Slots", bound=Sequence[Sequence[int]])
#: The providers that share with a tree, by ascending id, and the slots that they must not serve.
_Pool = tuple[tuple[int, ...], frozenset[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeBatch:
    """Some trees: ``roots`` of those looked at, in their order.

    ``trees``, by root, are those that have a provider for every slot, and the traits required
    together; where the same sharing providers serve all slots, several roots have the very same
    tree. ``providers`` are all that may serve, by id.
    """

    roots: Sequence[int]
    trees: Mapping[int, ProviderTree]
    providers: Mapping[int, TreeProvider]


@dataclass(frozen=True, slots=True)
class _Sharing:
    """Sharing providers by id, and what shares with the trees of which roots."""

    providers: Mapping[int, TreeProvider] = field(default_factory=dict)
    pools: Mapping[int, _Pool] = field(default_factory=dict)

    def options(self, pool: _Pool, slots: int) -> _Options:
        ids, barred = pool
        options: list[list[int]] = [[] for _ in range(slots)]
        for key in ids:
            for slot in self.providers[key].serves:
                if slot not in barred:
                    options[slot].append(key)
        return tuple(map(tuple, options))


@dataclass(frozen=True, slots=True)
class TreeLoader:
    """Reads trees for a search; all methods raise :class:`TooComplex` beyond the budget.

    ``for_other_rules``, as an explanation tries them: also trees that lack a trait, and free
    capacity also where the rules give a provider to one of the slots that request a class.
    """

    source: ProviderSource
    search: TreeSearch
    budget: Budget
    for_other_rules: bool = False

    def read_first(self, size: int, after: int) -> TreeBatch:
        """Return the first ``size`` trees with ids above ``after``."""
        found = self.source.first_trees(self.search, size, after)
        roots = sorted({one.root for one in found})
        self._pay_for_conditions(len(roots))
        return self._batch(roots, found)

    def read_trees(self, roots: Sequence[int]) -> TreeBatch:
        """Return the trees of these roots, in this order."""
        self._pay_for_conditions(len(roots))
        return self._batch(roots, self.source.trees(self.search, roots))

    def read_columns(self, roots: Sequence[int]) -> TreeColumns | None:
        """Return the providers of the trees of these roots as columns.

        Returns None, which costs nothing, where the source has none for this search.
        """
        columns = self.source.tree_columns(self.search, roots)
        if columns is not None:
            self._pay_for_conditions(len(roots))
            self.budget.spend(columns.pairs // _SHARED_NOTED)
        return columns

    def _pay_for_conditions(self, trees: int) -> None:
        beyond = max(0, conditions_of(self.search) - _FREE_CONDITIONS)
        self.budget.spend(trees * beyond // _CONDITIONS)

    def _batch(self, roots: Sequence[int], own: Sequence[TreeProvider]) -> TreeBatch:
        rules, sharing = self.search.rules, self._sharing_with(roots)
        options = dict(self._options(roots, own, sharing))
        providers = {one.id: one for one in own}
        for one in sharing.providers.values():
            # One that shares may serve other slots in its own tree.
            at_home = providers[one.id].serves if one.id in providers else ()
            providers[one.id] = one._replace(serves=tuple(sorted({*one.serves, *at_home})))
        # Each once, by identity: comparing them would take as long as making them.
        different = {id(slots): slots for slots in options.values()}
        ids = {key for slots in different.values() for slot in slots for key in slot}
        serving = [providers[key] for key in ids]
        free, covers = self._free(serving), self._covers(ids)
        lineage = self._lineage(ids, own, sharing)
        own_roots = {one.id: one.root for one in serving}
        made = {
            key: ProviderTree(slots, free, covers, lineage, own_roots)
            for key, slots in different.items()
        }
        if not self.for_other_rules:
            made = {key: tree for key, tree in made.items() if not lacks_traits(tree, rules)}
        trees = {root: made[id(slots)] for root, slots in options.items() if id(slots) in made}
        return TreeBatch(roots=roots, trees=trees, providers=providers)

    def _sharing_with(self, roots: Sequence[int]) -> _Sharing:
        """Return what shares with the trees of these roots, found with two questions.

        If a root is in an aggregate that is forbidden for a slot, nothing that shares may serve it.
        """
        search = self.search
        if not search.names.topology.sharing:
            return _Sharing()
        forbidden = {
            position: one.group.aggregates.forbidden
            for position, one in enumerate(search.slots)
            if one.group.aggregates.forbidden and not one.slot.suffix
        }
        shared: dict[int, list[int]] = defaultdict(list)
        barred: dict[int, frozenset[int]] = defaultdict(frozenset)
        for batch in batches(roots, 10_000):
            rows = self.source.sharing_pairs(search, batch, list(forbidden.values()))
            self.budget.spend(len(rows) // _SHARED_NOTED)
            for provider, root, *in_forbidden in rows:
                shared[root].append(provider)
                if any(in_forbidden):
                    slots = zip(forbidden, in_forbidden, strict=True)
                    barred[root] = frozenset(slot for slot, flag in slots if flag)
        ids = sorted({key for some in shared.values() for key in some})
        found = self.source.sharing(search, ids)
        serving = {one.id for one in found if one.serves}
        pools = {root: tuple(sorted(serving.intersection(some))) for root, some in shared.items()}
        return _Sharing(
            {one.id: one for one in found},
            {root: (some, barred[root]) for root, some in pools.items() if some},
        )

    def _options(
        self, roots: Sequence[int], own: Iterable[TreeProvider], sharing: _Sharing
    ) -> Iterator[tuple[int, _Options]]:
        """Yield root and providers by slot of each tree that has a provider for every slot.

        The value is the very same for all trees that only the same sharing providers serve.
        """
        number = len(self.search.slots)
        serving = _by_slot(own, number)
        shared: dict[_Pool, _Options] = {}
        for root in roots:
            at_home, pool = serving.get(root), sharing.pools.get(root)
            options: _Options | None = None
            if pool is not None:
                options = shared.get(pool)
                if options is None:
                    options = shared[pool] = self._paid(sharing.options(pool, number))
            if at_home is not None:
                if options is None and not all(at_home):
                    self._paid(at_home)
                    continue
                options = self._paid(_merged(at_home, options))
            if options is not None and all(options):
                yield root, options

    def _paid(self, options: _Slots) -> _Slots:
        self.pay_for(options)
        return options

    def pay_for(self, options: Sequence[Sequence[int]]) -> int:
        """Spend what it costs to note the providers of a tree that may serve; return the steps."""
        steps = sum(map(len, options)) // _NOTED
        self.budget.spend(steps)
        return steps

    def _free(self, providers: Sequence[TreeProvider]) -> Mapping[tuple[int, int], FreeCapacity]:
        repeated = self._contested(range(len(self.search.slots)), isolate=False)
        if not repeated:
            return {}
        isolate = self.search.rules.isolate
        classes = {
            serves: repeated if self.for_other_rules else self._contested(serves, isolate=isolate)
            for serves in {one.serves for one in providers}
        }
        wanted = {(one.id, class_id) for one in providers for class_id in classes[one.serves]}
        if not wanted:
            return {}
        return self.source.free(wanted)

    @property
    def looks_at_capacity(self) -> bool:
        """Whether it may depend on what is free which providers of a tree serve together."""
        return bool(
            self._contested(range(len(self.search.slots)), isolate=self.search.rules.isolate)
        )

    def _contested(self, slots: Iterable[int], *, isolate: bool) -> frozenset[int]:
        """Return the classes of several slots, if not (``isolate``) all of these have suffixes."""
        suffixes: dict[int, list[str]] = defaultdict(list)
        for slot in (self.search.rules.slots[position] for position in slots):
            for class_id, _ in slot.amounts:
                suffixes[class_id].append(slot.suffix)
        return frozenset(
            class_id
            for class_id, some in suffixes.items()
            if len(some) > 1 and not (isolate and all(some))
        )

    def _covers(self, providers: Iterable[int]) -> Mapping[int, int]:
        bits = trait_bits(self.search.rules.trait_choices)
        return self.source.covers(providers, bits) if bits else {}

    def _lineage(
        self, ids: Iterable[int], own: Iterable[TreeProvider], sharing: _Sharing
    ) -> dict[int, frozenset[int]]:
        """Return these providers, each with all above it.

        One that shares may have a subtree of its own.
        """
        if not self.search.rules.subtrees:
            return {}
        parents = {one.id: one.parent for one in (*own, *sharing.providers.values())}
        if sharing.providers:
            parents.update(self.source.parents({one.root for one in sharing.providers.values()}))
        lineages: dict[int | None, frozenset[int]] = {None: frozenset()}
        found: dict[int, frozenset[int]] = {}
        for key in ids:
            above = parents.get(key)
            if above not in lineages:
                lineages[above] = with_ancestors(above, parents)
            found[key] = lineages[above] | {key}
        return found


def _by_slot(own: Iterable[TreeProvider], number: int) -> dict[int, list[list[int]]]:
    """Return by root the providers of each tree that serve each of so many slots, if any."""
    found: dict[int, list[list[int]]] = {}
    for provider in own:
        if provider.serves:
            slots = found.get(provider.root)
            if slots is None:
                slots = found[provider.root] = [[] for _ in range(number)]
            for slot in provider.serves:
                slots[slot].append(provider.id)
    return found


def _merged(own: Sequence[Sequence[int]], shared: _Options | None) -> _Options:
    if shared is None:
        return tuple([tuple(sorted(slot) if len(slot) > 1 else slot) for slot in own])
    return tuple(
        [
            tuple(sorted((*slot, *more)) if more or len(slot) > 1 else slot) if slot else more
            for slot, more in zip(own, shared, strict=True)
        ]
    )


def with_ancestors(provider: int | None, parents: Mapping[int, int | None]) -> frozenset[int]:
    """Return a provider with all above it, as far as they are known.

    Each statement sees its own state of the cloud: what was moved or removed between two of them
    may lack its parent, or be above itself.
    """
    found: set[int] = set()
    while provider is not None and provider not in found:
        found.add(provider)
        provider = parents.get(provider)
    return frozenset(found)
