# SPDX-License-Identifier: Apache-2.0
"""Host filter that passes every host."""

from placement_sched.scheduler.filters.all_hosts_filter import AllHostsFilter
from tests.support.states import build_host_state, build_service, build_spec


def test_all_hosts_filter_passes_every_host():
    host = build_host_state(service=build_service(disabled=True))
    assert AllHostsFilter().host_passes(host, build_spec())
    assert AllHostsFilter().rejection(host, build_spec()) is None
