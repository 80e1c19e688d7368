"""RetryFilter: not where it was tried before."""

from collections.abc import Iterable
from dataclasses import replace

from placement_sched.scheduler.filters import (
    BaseHostFilter,
    HostState,
    Refusal,
    Remedy,
    RequestSpec,
)


class RetryFilter(BaseHostFilter):
    """Rejects hosts on which this request was tried before.

    A client that tries again names them in ``retry`` of the request spec, each a host and a node.
    As it was until nova 21 (Ussuri); since then alternates take its place.
    """

    def refusal(self, host_state: HostState, spec_obj: RequestSpec) -> Refusal | None:
        """Return the try that ended on this node."""
        tried = spec_obj.retry.hosts if spec_obj.retry else ()
        places = [(one.host, one.hypervisor_hostname) for one in tried]
        if (host_state.host, host_state.nodename) not in places:
            return None
        return Refusal(f"already tried ({len(places)} hosts so far)")

    def changes(self, host_state: HostState, spec_obj: RequestSpec) -> Iterable[Remedy]:
        """Return that the request may be tried here again."""
        yield Remedy("ask", "ask without it in retry", spec=replace(spec_obj, retry=None))
