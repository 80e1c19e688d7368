"""Why a host or a request was rejected.

Three kinds of failure stay apart (design.md §3). A rejection is this value. A conflict is
:class:`~placement_sched.errors.ConcurrentUpdate`. A bug in a plugin is
:class:`~placement_sched.errors.PluginFailed`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from placement_sched.model.document import Json


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something is refused, in one sentence for operators.

    ``asked`` and ``has`` are the two sides of the comparison that failed, in the units the
    sentence names, where there are two. ``of_one`` and ``of_several`` say it after "the host would
    fit, but" and "hosts would fit, but", of hosts that are refused alike.
    """

    reason: str
    asked: Any = None
    has: Any = None
    of_one: str = ""
    of_several: str = ""


@dataclass(frozen=True, slots=True)
class Remedy:
    """One change, of the cloud or of the request, after which a host is no longer rejected.

    ``action`` is a word for programs, ``words`` a sentence for operators, ``values`` what the
    action needs. To try it, ``host`` has attributes of the host state as they are after it, and
    ``spec`` the request, a :class:`~placement_sched.model.request_spec.RequestSpec`.
    """

    action: str
    words: str
    values: Mapping[str, Any] = field(default_factory=dict)
    host: Mapping[str, Any] = field(default_factory=dict)
    spec: Any = None

    @property
    def may_be_tried(self) -> bool:
        """Return whether it says how host or request are after it."""
        return bool(self.host) or self.spec is not None

    def as_json(self) -> Json:
        """Return the entry of ``changes``."""
        return {"action": self.action, "words": self.words, **self.values}
