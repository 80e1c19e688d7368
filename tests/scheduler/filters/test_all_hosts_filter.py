# SPDX-License-Identifier: Apache-2.0
"""AllHostsFilter refuses nobody."""

from placement_sched.scheduler.filters.all_hosts_filter import AllHostsFilter
from tests.support.states import a_host, a_service, a_spec


def test_every_host_passes():
    host = a_host(service=a_service(disabled=True))
    assert AllHostsFilter().host_passes(host, a_spec())
    assert AllHostsFilter().refusal(host, a_spec()) is None
