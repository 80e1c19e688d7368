"""RetryFilter: not where it was tried before."""

from collections.abc import Iterable
from dataclasses import replace

from placement_sched.model.request_spec import TriedHost
from placement_sched.scheduler.filters import (
    BaseHostFilter,
    HostState,
    Question,
    Refusal,
    Remedy,
    RequestSpec,
)


class RetryFilter(BaseHostFilter):
    """Rejects hosts on which this request was tried before.

    A client that tries again names them in ``retry`` of the request spec, each a host and a node.
    As it was until nova 21 (Ussuri); since then alternates take its place.
    """

    def for_request(self, spec_obj: RequestSpec) -> Question | None:
        """Return what rejects the nodes on which earlier tries ended."""
        tried = spec_obj.retry.hosts if spec_obj.retry else ()
        if not tried:
            return None
        places = spec_obj.read_once(tried, _places)
        refusal = Refusal(f"already tried ({len(tried)} hosts so far)")
        return lambda host: refusal if (host.host, host.nodename) in places else None

    def changes(self, host_state: HostState, spec_obj: RequestSpec) -> Iterable[Remedy]:
        """Return that the request may be tried here again."""
        yield Remedy("ask", "ask without it in retry", spec=replace(spec_obj, retry=None))


def _places(tried: Iterable[TriedHost]) -> frozenset[tuple[str, str]]:
    return frozenset((one.host, one.hypervisor_hostname) for one in tried)
