# SPDX-License-Identifier: Apache-2.0
"""Rejections of hosts and requests, and suggested changes.

A rejection is a value, not an exception. Exceptions are for conflicts with concurrent requests
(:class:`~placement_sched.errors.ConcurrentUpdate`) and bugs in plugins
(:class:`~placement_sched.errors.PluginFailed`). The sentences about rejections are in
:mod:`placement_sched.explain.kinds`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from placement_sched.model.constraint import Constraint
from placement_sched.model.document import Json

#: The stage families in the funnel.
REQUEST_FILTERS, CANDIDATES, FILTERS = "request_filters", "allocation_candidates", "filters"
#: The stage that rejects candidates whose providers are not known compute nodes.
COMPUTE_NODES = "compute_nodes"
#: The stage that rejects hosts filled by earlier instances of the same request.
USED_UP = "room_left"
#: The kind of rejections that only have a text.
OTHER = "other"


@dataclass(frozen=True, slots=True)
class Rejection:
    """The reason for rejecting a host or request.

    ``kind`` is a code in the table of kinds in :mod:`placement_sched.explain.kinds`, and
    ``values`` are the fields of this kind, such as ``resource_class`` and ``free``. ``requested``
    and ``actual`` are both sides of a failed comparison. A third-party filter only needs ``text``,
    a sentence of its own. ``parts`` are the rejections of several providers in a tree.
    """

    text: str = ""
    requested: Any = None
    actual: Any = None
    kind: str = OTHER
    values: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple["Rejection", ...] = ()

    def as_json(self) -> Json:
        """Return the kind and the values, as keys of a rejection in JSON."""
        keys: Json = {"kind": self.kind, **self.values}
        for name, value in (("requested", self.requested), ("actual", self.actual)):
            if value is not None and isinstance(value, str | int | float | list | tuple):
                keys[name] = value
        if self.parts:
            keys["parts"] = [each.as_json() for each in self.parts]
        return keys


@dataclass(frozen=True, slots=True)
class SuggestedChange:
    """A change of the cloud, or of the request, that avoids a rejection.

    ``action`` is an identifier for programs, ``words`` is a sentence for operators, and ``values``
    are the parameters of the action. For a test of the change, ``host`` has new attributes of the
    host state, and ``spec`` is the new :class:`~placement_sched.model.request_spec.RequestSpec`.
    ``drops`` is the constraint of the search that the change drops, if any.
    """

    action: str
    words: str
    values: Mapping[str, Any] = field(default_factory=dict)
    host: Mapping[str, Any] = field(default_factory=dict)
    spec: Any = None
    drops: Constraint | None = None

    @property
    def can_be_tested(self) -> bool:
        """Return whether the change can be tested in a scheduling run."""
        return bool(self.host) or self.spec is not None

    def as_json(self) -> Json:
        """Return the change as an entry of ``changes``."""
        return {"action": self.action, "words": self.words, **self.values}


#: Changes. Each change lets a rejected host pass.
SuggestedChanges = Iterable[SuggestedChange]
