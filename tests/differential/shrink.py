"""Cuts a history to the requests without which the difference would not show."""

from collections.abc import Callable
from time import monotonic

from tests.differential.duel import Duel, Finding
from tests.differential.exchange import Request

History = tuple[Request, ...]


def shrink(duel: Duel, finding: Finding, seconds: float = 60.0) -> Finding:
    """Return the finding with as short a history as is found in this time."""
    wanted = set(finding.differences)
    silent = all(aspect.startswith("state of") for aspect in wanted)

    def shows(history: History) -> bool:
        *steps, state = duel.replay(history)
        if silent:
            return bool(wanted & state.keys())
        return bool(steps) and bool(wanted & steps[-1].keys())

    kept = finding.history if silent else finding.history[:-1]
    last = () if silent else finding.history[-1:]
    if not shows(kept + last):
        return finding
    shortest = _least(kept, lambda history: shows(history + last), monotonic() + seconds)
    return Finding((*shortest, *last), finding.differences)


def _least(history: History, shows: Callable[[History], bool], until: float) -> History:
    """Leave out ever smaller parts for as long as it still shows."""
    size = max(len(history) // 2, 1)
    while history and monotonic() < until:
        start, cut = 0, False
        while start < len(history) and monotonic() < until:
            without = history[:start] + history[start + size :]
            if shows(without):
                history, cut = without, True
            else:
                start += size
        if not cut or size > 1:
            if size == 1:
                return history
            size = max(size // 2, 1)
    return history
