"""Which hosts a request gets to see at all, where the number of candidates is limited.

A request looks at the first ``max_placement_results`` candidates. Hosts that are full are not among
them, but those that a filter refuses are, and may hide others for ever.
"""

from collections import Counter
from collections.abc import Sequence

from placement_sched.candidates.search import effective_limit, limiting_option
from placement_sched.scheduler.capacity.ledger import Ledger, Stop
from placement_sched.scheduler.choose import Run

_DRAWN = (
    "candidates are limited by {option}, and refused hosts alone are {blocked}: which of the "
    "others a request sees is not determined, so this is what fits if it sees them all"
)
_IN_PART = "candidates are limited by {option}: of some hosts only a part of them is seen"


def close(run: Run, ledgers: Sequence[Ledger]) -> str | None:
    """Take back what was placed on hosts that are never seen; return why that is not certain."""
    query, settings = run.searches.query, run.request.settings
    requested = query.limit if query else None
    limit = effective_limit(requested, settings)
    known = {ledger.host.uuid: ledger for ledger in ledgers}
    offered = Counter(request.root_uuid for request in run.searches.found.requests)
    # What is on no compute node stays where it is as well.
    blocked = sum(known[root].left if root in known else number for root, number in offered.items())
    if limit is None or blocked < limit:
        return None
    option = limiting_option(requested, settings)
    options = settings.placement
    in_turn = options.allocation_candidates_generation_strategy == "breadth-first"
    at_random = options.randomize_allocation_candidates
    if at_random or run.searches.fallback or (in_turn and max(offered.values()) > 1):
        return _DRAWN.format(option=option, blocked=blocked)
    return _scanned(offered, known, limit, option)


def _scanned(
    offered: Counter[str], known: dict[str | None, Ledger], limit: int, option: str
) -> str | None:
    """Go through the candidates in their order until refused ones alone fill the limit."""
    before, doubt = 0, None
    for root, number in offered.items():
        ledger = known.get(root)
        if ledger is None:
            before += number
            continue
        in_part = number > 1 and ledger.left and before + number > limit
        if before < limit and not in_part:
            before += ledger.left
            continue
        if before < limit:
            doubt = _IN_PART.format(option=option)
        before += ledger.left
        ledger.instances, ledger.stop = 0, Stop("limit", option)
    return doubt
