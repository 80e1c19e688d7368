"""Host filters: each rejects hosts that a request cannot go to.

Write :meth:`~BaseHostFilter.refusal`, which says why a host is rejected; or
:meth:`~BaseHostFilter.for_request`, where something is the same for every host, most requests pass,
or limits are to be handed on with a host. Neither changes the host state. ``host_passes``,
``_filter_one`` and ``filter_all`` work as in nova (see ``scheduler/filtering.py``).
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from placement_sched.model.request_spec import RequestSpec
from placement_sched.model.verdict import Refusal, Remedy
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.plugin import SchedulerPlugin, classes_in

__all__ = ["BaseHostFilter", "CandidateFilterMixin", "HostState", "Passed", "Question", "Remedy"]
__all__ += ["Refusal", "RequestSpec", "Verdict", "all_filters"]


@dataclass(frozen=True, slots=True)
class Passed:
    """A host passes: ``limits`` are handed on in the selection, ``candidates`` are those left.

    None leaves the host's allocation candidates as they are.
    """

    limits: Mapping[str, Any] = field(default_factory=dict)
    candidates: Sequence[Any] | None = None

    def hand_on(self, host_state: HostState) -> None:
        """Write the result to the host state, for the filters and weighers that come after."""
        host_state.limits.update(self.limits)
        if self.candidates is not None:
            host_state.allocation_candidates = self.candidates


#: Why a request may not go to a host; else what is handed on with the host, or None for nothing.
Verdict = Refusal | Passed | None

#: What a filter asks of one host for a request.
Question = Callable[[HostState], Verdict]


class BaseHostFilter(SchedulerPlugin):
    """The base of all host filters."""

    #: Whether a request for several instances asks the filter for the first one only: right where
    #: the answer cannot change by what earlier instances took.
    run_filter_once_per_request = False

    #: Whether the filter also runs when an instance is rebuilt on the host it is on.
    RUN_ON_REBUILD = False

    #: The scheduler hints that name hosts or instances which a limit on candidates might cut away.
    unlimited_hints: ClassVar[tuple[str, ...]] = ()

    #: Whether a host takes no more members of an anti-affinity group than the group's rule says,
    #: so that they can be counted. Not inherited: a subclass may have another rule.
    caps_group_members = False

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Let a class that writes one of ``refusal`` and ``for_request`` answer the other by it."""
        super().__init_subclass__(**arguments)
        own = vars(cls).keys() & {"refusal", "for_request"}
        if own == {"refusal"}:
            cls.for_request = BaseHostFilter.for_request  # type: ignore[method-assign]
        elif own == {"for_request"}:
            cls.refusal = _by_question(cls.for_request)  # type: ignore[method-assign]

    def refusal(self, host_state: HostState, spec_obj: RequestSpec) -> Refusal | None:
        """Return why the request may not go to this host, or None where it may."""
        raise NotImplementedError(f"{type(self).__name__} has neither host_passes nor refusal")

    def for_request(self, spec_obj: RequestSpec) -> Question | None:
        """Return the check of each host for this request; None where every host passes.

        It is called once per instance.
        """
        return lambda host_state: self.refusal(host_state, spec_obj)

    def verdicts(
        self, hosts: Sequence[HostState], spec_obj: RequestSpec
    ) -> Sequence[Verdict] | None:
        """Return the verdict on each host, in their order; None where every host passes."""
        ask = self.for_request(spec_obj)
        return None if ask is None else [ask(host) for host in hosts]

    def check(self, spec_obj: RequestSpec) -> None:
        """Raise :class:`~placement_sched.errors.Invalid` where no host could make sense of this.

        Asked once per request, before any host is looked at.
        """

    def changes(self, host_state: HostState, spec_obj: RequestSpec) -> Iterable[Remedy]:
        """Return the changes, each of which is enough for the request to go to this host.

        Asked only of a host that the filter rejects, for a report on that host alone. The one that
        changes least comes first.
        """
        return ()

    def run_filter_for_index(self, index: int) -> bool:
        """Return whether to run for the instance of this index (from 0) of a request."""
        return index == 0 or not self.run_filter_once_per_request

    # nova's names, which third-party filters override or call

    def host_passes(self, host_state: HostState, spec_obj: RequestSpec) -> bool:
        """Return whether the request may go to this host; as in nova, write limits to its state."""
        ask = self.for_request(spec_obj)
        verdict = None if ask is None else ask(host_state)
        if isinstance(verdict, Passed):
            verdict.hand_on(host_state)
        return not isinstance(verdict, Refusal)

    def _filter_one(self, obj: HostState, spec_obj: RequestSpec) -> bool:
        return self.host_passes(obj, spec_obj)

    def filter_all(
        self, filter_obj_list: Iterable[HostState], spec_obj: RequestSpec
    ) -> Iterable[HostState] | None:
        """Return the hosts that pass; None rejects all of them."""
        return (host for host in filter_obj_list if self._filter_one(host, spec_obj))


def _by_question(for_request: Callable[[Any, RequestSpec], Question | None]) -> Any:
    """Return the ``refusal`` that asks what a class's own ``for_request`` returns."""

    def refusal(plugin: Any, host_state: HostState, spec_obj: RequestSpec) -> Refusal | None:
        ask = for_request(plugin, spec_obj)
        verdict = None if ask is None else ask(host_state)
        return verdict if isinstance(verdict, Refusal) else None

    return refusal


class CandidateFilterMixin:
    """For nova's filters that judge the ways to allocate on a host, not only the host."""

    def filter_candidates(
        self, host_state: HostState, filter_func: Callable[[Any], object]
    ) -> list[Any]:
        """Leave only the allocation candidates that pass on the host, and return them.

        Where none is returned the filter is to reject the host.
        """
        good = [one for one in host_state.allocation_candidates if filter_func(one)]
        host_state.allocation_candidates = good
        return good


def all_filters() -> list[type[BaseHostFilter]]:
    """Return the filter classes that are shipped."""
    return classes_in(sys.modules[__name__], BaseHostFilter)
