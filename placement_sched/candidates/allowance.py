"""How much work an explanation may make beside the search that it explains.

A request that no host serves is explained unasked, so that this is what each such request may
cost at most.
"""

from placement_sched.candidates.combine import Budget
from placement_sched.config.settings import Settings

#: The part of the search's own budget that is allowed whatever there is, about a second's worth.
_PART = 20
#: Steps allowed on top for each tree, several times what one takes that nothing is difficult with.
_EACH = 100


def allowance(settings: Settings, trees: int, ways: int = 1) -> Budget:
    """Return the budget of an explanation that looks at so many trees, or one of so many shares.

    It has no bound where ``[placement] allocation_candidates_budget`` is 0.
    """
    steps = settings.placement.allocation_candidates_budget
    return Budget(((steps // _PART) + _EACH * trees) // ways or 1 if steps else 0)
