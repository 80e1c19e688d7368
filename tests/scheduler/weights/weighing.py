# SPDX-License-Identifier: Apache-2.0
"""Runs of a single weigher."""

from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.weighing import WeighRun, run_weighers
from placement_sched.scheduler.weights import BaseHostWeigher
from tests.support.states import build_spec, settings_with


def run_weigher(
    kind: type[BaseHostWeigher], hosts: list[HostState], spec=None, **options
) -> WeighRun:
    plugin = kind.with_settings(settings_with(**options))
    return run_weighers([plugin], hosts, spec or build_spec())


def weigh_hosts(
    kind: type[BaseHostWeigher], hosts: list[HostState], spec: RequestSpec | None = None, **options
) -> list[tuple[str, float]]:
    """Return host and weight, best first."""
    return [
        (host.obj.host, host.weight) for host in run_weigher(kind, hosts, spec, **options).hosts
    ]


def find_raw_weights(
    kind: type[BaseHostWeigher], hosts: list[HostState], spec: RequestSpec | None = None, **options
) -> dict[str, float]:
    """Return the raw weight of each host."""
    reports = run_weigher(kind, hosts, spec, **options).host_reports()
    return {report.host: report.weights[kind.__name__].raw for report in reports}
