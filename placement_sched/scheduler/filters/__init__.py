# SPDX-License-Identifier: Apache-2.0
"""Host filters, and the base class for writing them.

Implement :meth:`~BaseHostFilter.rejection`, which returns the reason why a host is rejected.
Implement :meth:`~BaseHostFilter.prepare` instead if part of the work is the same for every host, if
most requests need no check at all, or if a passing host gets limits. Neither method changes the
host state. ``host_passes``, ``_filter_one`` and ``filter_all`` work as in nova (see
``scheduler/filtering.py``).
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from placement_sched.model.request_spec import RequestSpec
from placement_sched.model.verdict import Rejection, SuggestedChange, SuggestedChanges
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.plugin import SchedulerPlugin, classes_in

__all__ = [
    "BaseHostFilter",
    "CandidateFilterMixin",
    "HostCheck",
    "HostState",
    "Passed",
    "SuggestedChange",
    "SuggestedChanges",
]
__all__ += ["Rejection", "RequestSpec", "Verdict", "all_filters"]


@dataclass(frozen=True, slots=True)
class Passed:
    """The result of a filter for a host that passes.

    ``limits`` are copied to the selection. ``candidates`` are the remaining allocation candidates
    of the host. None leaves them unchanged.
    """

    limits: Mapping[str, Any] = field(default_factory=dict)
    candidates: Sequence[Any] | None = None

    def apply_to(self, host_state: HostState) -> None:
        """Write the result to the host state, for later filters and weighers."""
        host_state.limits.update(self.limits)
        if self.candidates is not None:
            host_state.allocation_candidates = self.candidates


#: A rejection, a pass with limits or candidates, or None for a plain pass.
Verdict = Rejection | Passed | None

#: The check of a host for one request.
HostCheck = Callable[[HostState], Verdict]


class BaseHostFilter(SchedulerPlugin):
    """Base class of all host filters."""

    #: Whether to run only for the first instance of a request: correct if earlier instances of the
    #: request cannot change the result.
    run_filter_once_per_request = False

    #: Whether the filter also runs when an instance is rebuilt on its host.
    RUN_ON_REBUILD = False

    #: Scheduler hints that name hosts or instances: requests with them find unlimited candidates.
    unlimited_hints: ClassVar[tuple[str, ...]] = ()

    #: Whether the filter enforces the maximum of an anti-affinity group's rule, and nothing else.
    #: Capacity reports then count members. Not inherited: a subclass may have another rule.
    caps_group_members = False

    #: Whether the filter reads the last failover result (``model/figures.py``). Simulations skip
    #: such filters, because the result is for the unchanged cloud.
    reads_failover_result = False

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        # A class implements rejection or prepare; derive the other method from it.
        own = vars(cls).keys() & {"rejection", "prepare"}
        if own == {"rejection"}:
            cls.prepare = BaseHostFilter.prepare  # type: ignore[method-assign]
        elif own == {"prepare"}:
            cls.rejection = _rejection_from(cls.prepare)  # type: ignore[method-assign]

    def rejection(self, host_state: HostState, spec_obj: RequestSpec) -> Rejection | None:
        """Return the reason why the host is rejected, or None if it passes."""
        raise NotImplementedError(f"{type(self).__name__} has neither host_passes nor rejection")

    def prepare(self, spec_obj: RequestSpec) -> HostCheck | None:
        """Return the check to run on each host, or None if every host passes.

        Called once per instance of the request.
        """
        return lambda host_state: self.rejection(host_state, spec_obj)

    def verdicts(
        self, hosts: Sequence[HostState], spec_obj: RequestSpec
    ) -> Sequence[Verdict] | None:
        """Return the verdict on each host, or None if every host passes."""
        check_host = self.prepare(spec_obj)
        return None if check_host is None else [check_host(host) for host in hosts]

    def check(self, spec_obj: RequestSpec) -> None:
        """Validate the request, once and before any host is checked.

        Raises :class:`~placement_sched.errors.Invalid` if the request is invalid for any host.
        """

    def compares_hosts(self, spec_obj: RequestSpec) -> bool:
        """Return whether an instance on a host can let another host pass for the next instance."""
        return False

    def suggested_changes(self, host_state: HostState, spec_obj: RequestSpec) -> SuggestedChanges:
        """Suggest changes that each let a rejected host pass, smallest first.

        Called only for reports on a single host.
        """
        return ()

    def run_filter_for_index(self, index: int) -> bool:
        """Return whether to run for the instance with this index (from 0)."""
        return index == 0 or not self.run_filter_once_per_request

    # nova's names, which third-party filters override or call

    def host_passes(self, host_state: HostState, spec_obj: RequestSpec) -> bool:
        """Return whether the host passes, and write limits to the host state."""
        check_host = self.prepare(spec_obj)
        verdict = None if check_host is None else check_host(host_state)
        if isinstance(verdict, Passed):
            verdict.apply_to(host_state)
        return not isinstance(verdict, Rejection)

    def _filter_one(self, obj: HostState, spec_obj: RequestSpec) -> bool:
        return self.host_passes(obj, spec_obj)

    def filter_all(
        self, filter_obj_list: Iterable[HostState], spec_obj: RequestSpec
    ) -> Iterable[HostState] | None:
        """Return the hosts that pass, or None if none does."""
        return (host for host in filter_obj_list if self._filter_one(host, spec_obj))


def _rejection_from(prepare: Callable[[Any, RequestSpec], HostCheck | None]) -> Any:
    def rejection(plugin: Any, host_state: HostState, spec_obj: RequestSpec) -> Rejection | None:
        check_host = prepare(plugin, spec_obj)
        verdict = None if check_host is None else check_host(host_state)
        return verdict if isinstance(verdict, Rejection) else None

    return rejection


class CandidateFilterMixin:
    """Mixin of nova filters that check the allocation candidates of a host."""

    def filter_candidates(
        self, host_state: HostState, filter_func: Callable[[Any], object]
    ) -> list[Any]:
        """Drop the allocation candidates of the host that a function rejects.

        Returns the remaining candidates. If none remain, the filter rejects the host.
        """
        passing = [
            candidate for candidate in host_state.allocation_candidates if filter_func(candidate)
        ]
        host_state.allocation_candidates = passing
        return passing


def all_filters() -> list[type[BaseHostFilter]]:
    """Return the shipped filter classes."""
    return classes_in(sys.modules[__name__], BaseHostFilter)
