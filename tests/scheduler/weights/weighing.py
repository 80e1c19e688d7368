# SPDX-License-Identifier: Apache-2.0
"""Runs of a single weigher."""

from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.weights import BaseHostWeigher, WeighRun, run_weighers
from tests.support.states import build_host_state, build_settings, build_spec


def build_hosts(**figures) -> list[HostState]:
    """Return hosts cn1, cn2 and cn3 with these figures."""
    rows = zip(*figures.values(), strict=True)
    return [
        build_host_state(f"cn{number}", **dict(zip(figures, row, strict=True)))
        for number, row in enumerate(rows, start=1)
    ]


def run_weigher(
    kind: type[BaseHostWeigher], hosts: list[HostState], spec=None, **options
) -> WeighRun:
    plugin = kind.with_settings(build_settings(**options))
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
    reports = run_weigher(kind, hosts, spec, **options).build_host_reports()
    return {report.host: report.weights[kind.__name__].raw for report in reports}


def weigh_empty_host(kind: type[BaseHostWeigher]) -> float:
    """Return the raw weight of a host without a report."""
    return find_raw_weights(kind, [HostState("cn0", "cn0"), build_host_state("cn1")])["cn0"]


def check_sign_of_multiplier(kind: type[BaseHostWeigher], hosts: list[HostState]) -> None:
    """Check that the multiplier prefers hosts with large or small values.

    Of three hosts, cn2 has the largest value, and cn1 the value in the middle.
    """
    option, sign = f"filter_scheduler__{kind.weight_option.dest}", -1 if kind.is_penalty else 1
    weights = weigh_hosts(kind, hosts, **{option: 2.0 * sign})
    assert weights == [("cn2", 2.0), ("cn1", 1.0), ("cn3", 0.0)]
    weights = weigh_hosts(kind, hosts, **{option: -2.0 * sign})
    assert weights == [("cn3", 0.0), ("cn1", -1.0), ("cn2", -2.0)]
