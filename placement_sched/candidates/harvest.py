"""What is to be gathered from trees, and what has been so far."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from placement_sched.candidates.combine import Budget, Combination
from placement_sched.candidates.members import Member


@dataclass(frozen=True, slots=True, kw_only=True)
class Harvest:
    """How many combinations to take (None: all), in which order, and drawn by lot or not.

    ``only`` are the roots of the trees to look at; None is all trees.
    """

    budget: Budget
    limit: int | None
    breadth_first: bool = False
    random: Random | None = None
    only: Sequence[int] | None = None


@dataclass(frozen=True, slots=True)
class Served:
    """A combination, and the root of the tree that it serves."""

    root: int
    providers: Combination


@dataclass(slots=True)
class Basket:
    """What was gathered so far: no two combinations with the same providers.

    ``members`` are all providers, by id, of the trees read for it.
    """

    limit: int | None
    found: dict[Combination, Served] = field(default_factory=dict)
    members: dict[int, Member] = field(default_factory=dict)

    @property
    def lacking(self) -> int | None:
        """Return how many more are wanted; None is all there are."""
        return None if self.limit is None else max(self.limit - len(self.found), 0)
