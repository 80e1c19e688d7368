"""Where the search gets its facts about providers from.

The database answers each question with a statement (``from_database``). Whatever else answers them
returns the same, so that the combining after it makes the same candidates in the same order. Each
question may see a moment of the cloud of its own.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from placement_sched.candidates.combine import FreeCapacity
from placement_sched.candidates.resolve import ResolvedNames
from placement_sched.candidates.slots import TreeSearch
from placement_sched.db.histories import History
from placement_sched.model.placement.candidate import CandidateProvider, Usages
from placement_sched.model.placement.query import CandidatesQuery


class TreeProvider(NamedTuple):
    """A provider of a tree: its ids, what a summary needs, and the slots it could serve."""

    id: int
    root: int
    parent: int | None
    uuid: str
    generation: int
    serves: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeColumns:
    """The providers of some trees as columns: one tree after the other by root, each by id.

    Those that share with a tree are listed with it; ``roots`` are of the tree that each is listed
    with. ``parents`` are ids, 0 for none. ``serves`` has a column for each of the search's
    ``equal_slots``, ``covers`` one for each set of traits that a tree must have. ``pairs`` is with
    how many of these trees each provider shares, summed over all that do.
    """

    ids: NDArray[np.int64]
    roots: NDArray[np.int64]
    parents: NDArray[np.int64]
    uuids: NDArray[np.object_]
    serves: NDArray[np.bool_]
    covers: NDArray[np.bool_]
    pairs: int


#: What shares with a tree: the ids of the provider and of the tree's root, then for each set of
#: aggregates that was asked about whether the root is in one of them.
SharingPair = Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderContents:
    """What summaries show of providers, by their ids.

    ``capacities`` are by class id, in the order of these; ``traits`` name one of the sets of names
    in ``trait_sets``, which many providers share. ``ids_recur``: a new provider may get the id of
    a deleted one.
    """

    capacities: Mapping[int, Mapping[int, int]]
    traits: Mapping[int, Hashable]
    trait_sets: Mapping[Hashable, Sequence[str]]
    ids_recur: bool


class ProviderSource(Protocol):
    """Answers what a search asks about providers.

    Methods raise :class:`Unavailable` and :class:`TooComplex` as statements do.
    """

    @property
    def history(self) -> History:
        """The history of the database that the answers are of (``db/histories.py``)."""

    @property
    def reads_cheaply(self) -> bool:
        """Whether another question costs little, as no statement is sent for it."""

    @property
    def describes_once(self) -> bool:
        """Whether the very same object describes a provider until it or its usages change."""

    def resolve(self, query: CandidatesQuery) -> ResolvedNames:
        """Return the ids of all names used; raises :class:`UnknownNames`."""

    def serving_alone(
        self, query: CandidatesQuery, names: ResolvedNames, limit: int | None
    ) -> tuple[tuple[CandidateProvider, ...], Usages]:
        """Return the first providers, by id, that serve a request of one group alone.

        Usages are those that were found on the way.
        """

    def sampled_alone(
        self, query: CandidatesQuery, names: ResolvedNames, limit: int | None, random: Random
    ) -> tuple[CandidateProvider, ...]:
        """Return ``limit`` of the providers that serve alone, each as likely as any other."""

    def serving_alone_of(
        self, query: CandidatesQuery, names: ResolvedNames, uuids: Collection[str]
    ) -> tuple[CandidateProvider, ...]:
        """Return those of the providers of these uuids that serve alone, by id."""

    def ids_of(self, uuids: Collection[str]) -> Mapping[str, int]:
        """Return the ids of the providers of these uuids."""

    def describe_found(
        self, known: Mapping[int, TreeProvider], serving: Collection[int], *, whole: bool
    ) -> tuple[tuple[CandidateProvider, ...], tuple[CandidateProvider, ...] | None]:
        """Return the providers that serve, and if ``whole`` all of their trees, by id, or None.

        ``known`` are all that were read of trees, with those that share.
        """

    def whole_trees(self, providers: Sequence[CandidateProvider]) -> tuple[CandidateProvider, ...]:
        """Return all providers of the trees that these are of, by id."""

    def first_trees(self, search: TreeSearch, size: int, after: int) -> Sequence[TreeProvider]:
        """Return the providers of the first ``size`` trees whose roots have ids above ``after``.

        Their roots are as required; whether they can serve the request is not checked.
        """

    def trees(self, search: TreeSearch, roots: Sequence[int]) -> Sequence[TreeProvider]:
        """Return the providers of the trees of these roots."""

    def tree_columns(self, search: TreeSearch, roots: Sequence[int]) -> TreeColumns | None:
        """Return the same as columns, with the providers that share with each tree.

        Returns None where they are not at hand as such, and where providers that share may serve
        all slots: several trees would have the same candidate.
        """

    def sharing(self, search: TreeSearch, ids: Sequence[int]) -> Sequence[TreeProvider]:
        """Return the providers of these ids, and which slots of another tree each could serve.

        What depends on the root of the other tree is left out.
        """

    def sharing_pairs(
        self, search: TreeSearch, roots: Sequence[int], aggregates: Sequence[frozenset[str]]
    ) -> Sequence[SharingPair]:
        """Return what shares with the trees of these roots."""

    def roots(self, search: TreeSearch) -> list[int]:
        """Return all roots that are as required, by id."""

    def serving_roots(self, search: TreeSearch, limit: int | None, after: int = 0) -> list[int]:
        """Return the first ``limit`` roots, with ids above ``after``, of trees that may serve.

        Each slot has a provider there that could serve it alone.
        """

    def free(self, places: Collection[tuple[int, int]]) -> Mapping[tuple[int, int], FreeCapacity]:
        """Return what is free at these places, each a provider's and a class's id.

        Where a provider has an inventory of a class that another place names, that is there, too.
        """

    def free_columns(
        self, providers: Sequence[int], classes: Collection[int]
    ) -> Mapping[int, NDArray[np.float64]]:
        """Return by class what is free of it on each of these providers, 0 where it has none.

        They are whole numbers, and exact where smaller than 2**53.
        """

    def covers(self, providers: Iterable[int], bits: Mapping[int, int]) -> Mapping[int, int]:
        """Return by provider the bits, which are given by trait id, of all its traits."""

    def parents(self, roots: Collection[int]) -> Mapping[int, int | None]:
        """Return the id of the parent of each provider of these trees."""

    def contents(self, ids: Collection[int]) -> ProviderContents:
        """Return what summaries show of the providers of these ids."""

    def used(
        self, classes: Mapping[int, tuple[int, ...]], only: frozenset[int] | None
    ) -> Mapping[int, tuple[int, ...]]:
        """Return by provider what is allocated of each of its ``classes``, in their order.

        Of classes other than ``only``, unless that is None, it need not be known.
        """
