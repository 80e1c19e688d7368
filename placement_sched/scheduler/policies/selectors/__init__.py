# SPDX-License-Identifier: Apache-2.0
"""Policy selectors, which find the aggregates that match a request.

To add a selector, derive it from :class:`BasePolicySelector`, and name it in ``[scheduler]
policy_selection`` by its dotted path, or publish it under the entry point group
``placement_sched.policy_selectors``.
"""

import sys
from typing import ClassVar

from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.plugin import SchedulerPlugin, list_classes


class BasePolicySelector(SchedulerPlugin):
    """Base class of all policy selectors."""

    #: Name in ``[scheduler] policy_selection``, and other accepted names.
    name: ClassVar[str] = ""
    aliases: ClassVar[tuple[str, ...]] = ()

    def find_requested_value(self, spec_obj: RequestSpec) -> str | None:
        """Return the text in the request that selects a policy, or None."""
        raise NotImplementedError(f"{type(self).__name__} implements no find_requested_value()")

    def matches(self, spec_obj: RequestSpec, aggregate: HostAggregate) -> bool:
        """Return whether the request matches an aggregate with a policy."""
        raise NotImplementedError(f"{type(self).__name__} implements no matches()")

    def requests_default(self, spec_obj: RequestSpec) -> bool:  # noqa: ARG002 - for overrides
        """Return whether the request names the default policy itself."""
        return False


def all_selectors() -> list[type[BasePolicySelector]]:
    """Return the shipped selector classes."""
    return list_classes(sys.modules[__name__], BasePolicySelector)
