"""The numbers of the log of changes on MariaDB that were given out and are not there (yet).

InnoDB gives a row its number when it is inserted, not when it is committed: a reader that has seen
number 11 may still be without number 10, whose transaction may commit an hour later, or was rolled
back. A gap is looked for again at each reading, until it is known that its transaction has ended.

That is known by turns. Before it inserts into the log, each trigger takes a shared lock on one row
of ``sched_provider_change_turns``, another one every few seconds, and so holds it until its
transaction ends. A turn that is found without locks *after* a gap was seen is not that of the gap's
transaction, if that is still at work; once each turn was found free, at whatever moments, it is
not. Nothing ever waits here, and no privilege is needed: turns that are taken are skipped.
"""

from dataclasses import dataclass
from time import monotonic, sleep

from sqlalchemy import Connection

from placement_sched.db.change_triggers import TURNS, free_turns

#: Seconds between two looks at the turns: a gap costs a reading nothing but one more number.
PAUSE = 1.0
#: Seconds that a first reading waits for the transactions that were at work before it.
PATIENCE = 30.0

_EVERY_TURN = frozenset(range(TURNS))


@dataclass(frozen=True, slots=True)
class Settling:
    """Which gaps are being decided: those seen before the first look at the turns.

    ``waiting`` are the turns that were not found free since; ``at`` is when they were last looked
    at, in seconds of the monotonic clock.
    """

    gaps: frozenset[int] = frozenset()
    waiting: frozenset[int] = _EVERY_TURN
    at: float = 0.0


#: Before the first look.
UNDECIDED = Settling()


def settle(
    connection: Connection, settling: Settling, gaps: frozenset[int]
) -> tuple[Settling, frozenset[int]]:
    """Look at the turns, if it is time to; return the gaps whose transactions have ended.

    They may have been committed a moment ago: the log has to be read once more, afterwards.
    """
    now = monotonic()
    if not gaps or now - settling.at < PAUSE:
        return settling, frozenset()
    decided, waiting = settling.gaps & gaps, settling.waiting
    if not decided:
        decided, waiting = gaps, _EVERY_TURN
    if waiting := waiting - free_turns(connection):
        return Settling(decided, waiting, now), frozenset()
    return Settling(at=now), decided


def outlast(connection: Connection, patience: float = PATIENCE) -> bool:
    """Wait until all transactions have ended that write to the log now; return whether they did."""
    until, waiting, pause = monotonic() + patience, _EVERY_TURN, 0.01
    while waiting := waiting - free_turns(connection):
        if monotonic() > until:
            return False
        sleep(pause)
        pause = min(2 * pause, 0.5)
    return True
