"""When what an answer shows last changed: the Last-Modified header, from 1.15 on."""

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

from placement_sched.api.call import Call
from placement_sched.api.placement.microversions import LAST_MODIFIED


class Stamped(Protocol):
    """What knows when it was made and last changed."""

    @property
    def created_at(self) -> datetime | None:
        """Return when it was made."""
        ...

    @property
    def updated_at(self) -> datetime | None:
        """Return when it was last changed, None for never."""
        ...


def latest_change(call: Call, shown: Iterable[Stamped] = ()) -> datetime | None:
    """Return when the latest change among what is shown was made.

    Where nothing is shown, or one does not tell, that is now. None before 1.15: then the header
    is not sent.
    """
    if not call.version.has(LAST_MODIFIED):
        return None
    changes = [one.updated_at or one.created_at for one in shown]
    known = [change for change in changes if change is not None]
    return max(known) if known and len(known) == len(changes) else call.now()
