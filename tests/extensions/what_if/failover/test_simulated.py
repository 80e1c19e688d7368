# SPDX-License-Identifier: Apache-2.0
"""Simulations of failures."""

from placement_sched.extensions.what_if.failover import report
from tests.extensions.what_if.failover.queries import compute_failover
from tests.support.api_clouds import report_hosts_with_instances


def test_each_uncovered_failure_is_simulated_once(sqlite_app, monkeypatch):
    report_hosts_with_instances(sqlite_app, ["cn1", "cn2"], ["cn1", "cn1", "cn1", "cn1", "cn2"])
    simulate, failures = report.simulate_failure, []

    def simulate_failure_and_record_hosts(mover, hosts):
        failures.append(sorted(hosts))
        return simulate(mover, hosts)

    monkeypatch.setattr(report, "simulate_failure", simulate_failure_and_record_hosts)
    # The numbers of further instances need no simulation.
    assert compute_failover(sqlite_app, remaining=True)["uncovered"] == 2
    assert sorted(failures) == [["cn1"], ["cn2"]]
