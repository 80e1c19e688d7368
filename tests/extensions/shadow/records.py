# SPDX-License-Identifier: Apache-2.0
"""Evaluation records and outcomes for tests of the comparison, from names of hosts."""

from placement_sched.extensions.shadow.comparison import (
    EvaluationRecord,
    HostName,
    InstanceStep,
    NovaOutcome,
)


def build_host_name(name: str) -> HostName:
    return HostName(name, name)


def build_instance_step(*best: str, weight: float = 1.0, more: int = 0) -> InstanceStep:
    if not best:
        return InstanceStep(None)
    return InstanceStep(
        build_host_name(best[0]), weight, frozenset(map(build_host_name, best)), more
    )


def build_evaluation_record(*steps: InstanceStep, **facts: object) -> EvaluationRecord:
    for name in ("passed", "rejected"):
        facts[name] = {
            build_host_name(key): value for key, value in dict(facts.get(name, {})).items()
        }
    return EvaluationRecord(steps=steps, **facts)


def build_outcome_on_host(name: str | None, **facts: object) -> NovaOutcome:
    return NovaOutcome(None if name is None else build_host_name(name), **facts)
