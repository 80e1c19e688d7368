"""Which hosts a request gets to see at all, where the number of candidates is limited.

A request looks at the first ``max_placement_results`` candidates. Hosts that are full are not among
them, but those that a filter refuses are, and may hide others for ever.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from placement_sched.candidates.search import effective_limit, limiting_option
from placement_sched.scheduler.choose import Run

_DRAWN = (
    "candidates are limited by {option}, and refused hosts alone are {blocked}: which of the "
    "others a request sees is not determined, so this is what fits if it sees them all"
)
_IN_PART = "candidates are limited by {option}: of some hosts only a part of them is seen"


@dataclass(slots=True)
class Unseen:
    """The uuids of nodes that a request never sees, the option that limits, and a doubt, if any."""

    uuids: set[str | None] = field(default_factory=set)
    option: str = ""
    doubt: str | None = None


def unseen(run: Run, left: Mapping[str | None, int]) -> Unseen:
    """Return the nodes that are never seen.

    ``left`` is how many candidates each node has still when it takes no more, by uuid.
    """
    query, settings = run.searches.query, run.request.settings
    requested = query.limit if query else None
    limit = effective_limit(requested, settings)
    if limit is None:
        return Unseen()
    offered = Counter([request.root_uuid for request in run.searches.found.requests])
    # What is on no compute node stays where it is as well.
    blocked = sum(left.get(root, number) for root, number in offered.items())
    if blocked < limit:
        return Unseen()
    option = limiting_option(requested, settings)
    options = settings.placement
    in_turn = options.allocation_candidates_generation_strategy == "breadth-first"
    at_random = options.randomize_allocation_candidates
    if at_random or run.searches.fallback or (in_turn and max(offered.values()) > 1):
        return Unseen(doubt=_DRAWN.format(option=option, blocked=blocked))
    return _scanned(offered, left, limit, option)


def _scanned(
    offered: Counter[str], left: Mapping[str | None, int], limit: int, option: str
) -> Unseen:
    """Go through the candidates in their order until refused ones alone fill the limit."""
    before, found = 0, Unseen(option=option)
    for root, number in offered.items():
        remaining = left.get(root)
        if remaining is None:
            before += number
            continue
        in_part = number > 1 and remaining and before + number > limit
        if before < limit and not in_part:
            before += remaining
            continue
        if before < limit:
            found.doubt = _IN_PART.format(option=option)
        before += remaining
        found.uuids.add(root)
    return found
