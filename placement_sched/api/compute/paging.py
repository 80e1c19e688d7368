"""How long an answer's list may be."""

from placement_sched.api.call import Call

#: The most that one answer lists, whatever is asked: nova's [api] max_limit.
MOST = 1000


def at_most(call: Call) -> int:
    """Return how many a list may have: what ``limit`` asks for, and no more than :data:`MOST`."""
    return min(int(call.value("limit") or MOST), MOST)
