"""Host filters: each refuses hosts that a request cannot go to.

A filter has nova's interface. Write :meth:`~BaseHostFilter.host_passes`, as nova's filters do, or,
better, :meth:`~BaseHostFilter.refusal`, so that the explanation can say why. One that works out
the same for every host, or has nothing to say about most requests, adds
:meth:`~BaseHostFilter.for_request`.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from placement_sched.model.spec import RequestSpec
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler.folder import classes_in
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.plugin import SchedulerPlugin

#: What a filter asks of one host: why the request may not go there, or None where it may.
Question = Callable[[HostState], Refusal | None]


class BaseHostFilter(SchedulerPlugin):
    """The base of all host filters."""

    #: Whether a request for several instances asks the filter for the first one only: right where
    #: the answer cannot change by what earlier instances took.
    run_filter_once_per_request = False

    #: Whether the filter also runs when an instance is rebuilt on the host it is on.
    RUN_ON_REBUILD = False

    def host_passes(self, host_state: HostState, spec_obj: RequestSpec) -> bool:
        """Return whether the request may go to this host."""
        kind = type(self)
        if kind.refusal is BaseHostFilter.refusal and not kind.prepares():
            raise NotImplementedError(f"{type(self).__name__} has neither host_passes nor refusal")
        return self.refusal(host_state, spec_obj) is None

    def refusal(self, host_state: HostState, spec_obj: RequestSpec) -> Refusal | None:
        """Return why the request may not go to this host, or None where it may."""
        if self.prepares():
            ask = self.for_request(spec_obj)
            return None if ask is None else ask(host_state)
        if self.host_passes(host_state, spec_obj):
            return None
        return Refusal(f"refused by {type(self).__name__}")

    def for_request(self, spec_obj: RequestSpec) -> Question | None:
        """Return what to ask of each host for this request; None where every host passes.

        It takes the place of ``refusal``, and is called once per instance. A class that overrides
        how its parent decides in another way is asked in that way.
        """
        return lambda host_state: self.refusal(host_state, spec_obj)

    @classmethod
    def prepares(cls) -> bool:
        """Return whether the class has a ``for_request`` of its own."""
        return cls.for_request is not BaseHostFilter.for_request

    def check(self, spec_obj: RequestSpec) -> None:
        """Raise :class:`~placement_sched.errors.Invalid` where no host could make sense of this.

        Asked once per request, before any host is looked at.
        """

    def _filter_one(self, obj: HostState, spec_obj: RequestSpec) -> bool:
        """Return whether one host passes; the seam that nova's filters have for doing more."""
        return self.host_passes(obj, spec_obj)

    def filter_all(
        self, filter_obj_list: Iterable[HostState], spec_obj: RequestSpec
    ) -> Iterable[HostState] | None:
        """Return the hosts that pass; None refuses all of them."""
        return self._passing(filter_obj_list, spec_obj)

    def _passing(self, hosts: Iterable[HostState], spec_obj: RequestSpec) -> Iterator[HostState]:
        return (host for host in hosts if self._filter_one(host, spec_obj))

    def run_filter_for_index(self, index: int) -> bool:
        """Return whether to run for the instance of this index (from 0) of a request."""
        return index == 0 or not self.run_filter_once_per_request


class CandidateFilterMixin:
    """For filters that judge the ways to allocate on a host, not only the host."""

    def filter_candidates(
        self, host_state: HostState, filter_func: Callable[[Any], object]
    ) -> list[Any]:
        """Return the host's allocation candidates that pass, and leave only them on the host.

        Where none is returned the filter is to refuse the host.
        """
        good = [one for one in host_state.allocation_candidates if filter_func(one)]
        host_state.allocation_candidates = good
        return good


def all_filters() -> list[type[BaseHostFilter]]:
    """Return the filter classes that are shipped."""
    return classes_in(sys.modules[__name__], BaseHostFilter)
