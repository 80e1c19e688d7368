"""The smallest sets of constraints without which a request on trees would have candidates.

The request is asked again without one constraint, where that never helps without two, and so on.
Which sets are worth asking is read off what every provider misses, so that few are asked; all
that is done for an explanation is paid from one budget.
"""

from collections.abc import Sequence

from sqlalchemy import Connection

from placement_sched.candidates.combine import Budget, verdicts
from placement_sched.candidates.hindrances import Hindrances
from placement_sched.candidates.loosening import Term, terms_of, without
from placement_sched.candidates.search import Search, forest_of
from placement_sched.candidates.sieve import Grove, sieves_of
from placement_sched.candidates.trees import read_trees
from placement_sched.errors import TooComplex
from placement_sched.model.report import NearMiss, NearMisses

#: What it costs of the budget to ask again, and each slot of the request: about what building
#: and running the statements takes.
_ASKED = 1000
_SLOT = 500
#: What each tree costs that is read for it.
_READ = 5


def near_misses(
    connection: Connection, search: Search, groves: Sequence[Grove], budget: Budget
) -> NearMisses:
    """Return the smallest sets of terms without which trees would serve, most trees first.

    Where the budget does not suffice, those found by then of the size in hand, if any.
    """
    sieves = sieves_of(search)
    terms = tuple(terms_of(search, sieves))
    rules = (1 << len(terms)) - (1 << len(sieves))
    found: list[NearMiss] = []
    complete = True
    try:
        hindrances = Hindrances(search, sieves, groves)
        for size in range(1, len(terms) + 1 if groves else 1):
            for some in hindrances.sets_of(size, rules, budget):
                dropped = [term for position, term in enumerate(terms) if some >> position & 1]
                roots = hindrances.trees_without(some, budget)
                if trees := _serving(connection, without(search, dropped), roots, budget):
                    found.append(_miss(dropped, trees))
            if found:
                break
    except TooComplex:
        complete = False
    return NearMisses.of(found, complete=complete)


def _serving(connection: Connection, search: Search, roots: Sequence[int], budget: Budget) -> int:
    """Return how many of these trees serve a request."""
    forest = forest_of(search)
    budget.spend(_ASKED + _SLOT * len(forest.parts) + _READ * len(roots))
    stand = read_trees(connection, forest, roots, budget)
    return sum(serves for _, serves in verdicts(stand.trees, forest.rules, budget))


def _miss(dropped: Sequence[Term], trees: int) -> NearMiss:
    return NearMiss.of([term.name for term in dropped], trees)
