# SPDX-License-Identifier: Apache-2.0
"""Rejections of hosts and requests.

A rejection is a value, not an exception. Exceptions are for conflicts with concurrent requests
(:class:`~placement_sched.errors.ConcurrentUpdate`) and bugs in plugins
(:class:`~placement_sched.errors.PluginFailed`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from placement_sched.model.document import Json


@dataclass(frozen=True, slots=True)
class Rejection:
    """The reason for rejecting a host or request, for operators.

    ``requested`` and ``actual`` are the two values of a failed comparison, in the units of
    ``reason``. If a rejection is all that keeps a host from fitting, ``clause`` completes the
    sentence "the host would fit, but". ``plural_clause`` does so for several hosts.
    """

    reason: str
    requested: Any = None
    actual: Any = None
    clause: str = ""
    plural_clause: str = ""


@dataclass(frozen=True, slots=True)
class SuggestedChange:
    """A change of the cloud, or of the request, that avoids a rejection.

    ``action`` is an identifier for programs, ``words`` is a sentence for operators, and ``values``
    are the parameters of the action. For a test of the change, ``host`` has new attributes of the
    host state, and ``spec`` is the new :class:`~placement_sched.model.request_spec.RequestSpec`.
    """

    action: str
    words: str
    values: Mapping[str, Any] = field(default_factory=dict)
    host: Mapping[str, Any] = field(default_factory=dict)
    spec: Any = None

    @property
    def can_be_tested(self) -> bool:
        """Return whether the change can be tested in a scheduling run."""
        return bool(self.host) or self.spec is not None

    def as_json(self) -> Json:
        """Return the change as an entry of ``changes``."""
        return {"action": self.action, "words": self.words, **self.values}


#: Changes. Each change lets a rejected host pass.
SuggestedChanges = Iterable[SuggestedChange]
