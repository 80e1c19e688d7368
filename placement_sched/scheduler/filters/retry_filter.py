# SPDX-License-Identifier: Apache-2.0
"""RetryFilter: filter that rejects hosts of earlier attempts."""

from collections.abc import Iterable
from dataclasses import replace

from placement_sched.explain.advice import build_change
from placement_sched.model.request_spec import TriedHost
from placement_sched.scheduler.filters import (
    BaseHostFilter,
    HostCheck,
    HostState,
    Rejection,
    RequestSpec,
    SuggestedChanges,
)


class RetryFilter(BaseHostFilter):
    """Filter that rejects the hosts of failed attempts.

    A client that repeats a request lists host and node of each failed attempt in ``retry`` of the
    request spec. nova had this filter until Ussuri (21), when alternates replaced it.
    """

    def prepare(self, spec_obj: RequestSpec) -> HostCheck | None:
        tried = spec_obj.retry.hosts if spec_obj.retry else ()
        if not tried:
            return None
        nodes = spec_obj.read_once(tried, _collect_node_names)
        rejection = Rejection(kind="retry", values={"hosts": len(tried)})
        return lambda host: rejection if (host.host, host.nodename) in nodes else None

    def suggested_changes(self, host_state: HostState, spec_obj: RequestSpec) -> SuggestedChanges:
        yield build_change("change_request", kind="retry", spec=replace(spec_obj, retry=None))


def _collect_node_names(tried: Iterable[TriedHost]) -> frozenset[tuple[str, str]]:
    return frozenset((attempt.host, attempt.hypervisor_hostname) for attempt in tried)
