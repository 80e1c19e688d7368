# SPDX-License-Identifier: Apache-2.0
"""What one weigher alone makes of hosts, under given options."""

from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.weighing import WeighRun, run_weighers
from placement_sched.scheduler.weights import BaseHostWeigher
from tests.support.states import a_spec, settings_with


def run(kind: type[BaseHostWeigher], hosts: list[HostState], spec=None, **options) -> WeighRun:
    """Return the run of this weigher alone."""
    plugin = kind.with_settings(settings_with(**options))
    return run_weighers([plugin], hosts, spec or a_spec())


def weighed(
    kind: type[BaseHostWeigher], hosts: list[HostState], spec: RequestSpec | None = None, **options
) -> list[tuple[str, float]]:
    """Return host and weight, best first."""
    return [(host.obj.host, host.weight) for host in run(kind, hosts, spec, **options).hosts]


def raw(
    kind: type[BaseHostWeigher], hosts: list[HostState], spec: RequestSpec | None = None, **options
) -> dict[str, float]:
    """Return what the weigher says of each host, before it is brought to a scale."""
    reports = run(kind, hosts, spec, **options).host_reports()
    return {report.host: report.weights[kind.__name__].raw for report in reports}
