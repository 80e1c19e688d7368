"""Selectors: each finds, by one property of a request, the aggregates that it is meant for.

A selector of your own derives from :class:`BasePolicySelector`, and is named in ``[scheduler]
policy_selection`` by its dotted path, or announced under the entry point group
``placement_sched.policy_selectors``.
"""

import sys
from typing import ClassVar

from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.plugin import SchedulerPlugin, classes_in


class BasePolicySelector(SchedulerPlugin):
    """The base of all selectors."""

    #: What ``[scheduler] policy_selection`` calls it, and by which other names.
    name: ClassVar[str] = ""
    aliases: ClassVar[tuple[str, ...]] = ()

    def asked(self, spec_obj: RequestSpec) -> str | None:
        """Return in words what of the request it goes by; None where that is not there."""
        raise NotImplementedError(f"{type(self).__name__} implements no asked()")

    def matches(self, spec_obj: RequestSpec, aggregate: HostAggregate) -> bool:
        """Return whether the request is meant for an aggregate, which has a policy."""
        raise NotImplementedError(f"{type(self).__name__} implements no matches()")

    def asks_for_default(self, spec_obj: RequestSpec) -> bool:  # noqa: ARG002 - few can
        """Return whether the request asks for the default policy itself."""
        return False


def all_selectors() -> list[type[BasePolicySelector]]:
    """Return the selector classes that are shipped."""
    return classes_in(sys.modules[__name__], BasePolicySelector)
