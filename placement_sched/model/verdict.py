"""Why a host or a request was rejected.

Three kinds of failure stay apart (design.md §3). A rejection is this value. A conflict is
:class:`~placement_sched.errors.ConcurrentUpdate`. A bug in a plugin is
:class:`~placement_sched.errors.PluginFailed`.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something is refused, in one sentence for operators.

    ``asked`` and ``has`` are the two sides of the comparison that failed, in the units the
    sentence names, where there are two.
    """

    reason: str
    asked: Any = None
    has: Any = None
