# SPDX-License-Identifier: Apache-2.0
"""Evaluation records and outcomes for tests of the comparison, from names of hosts."""

from placement_sched.nova.shadow.comparing import (
    EvaluationRecord,
    HostName,
    InstanceStep,
    NovaOutcome,
)


def host_name(name: str) -> HostName:
    return HostName(name, name)


def instance_step(*best: str, weight: float = 1.0, more: int = 0) -> InstanceStep:
    if not best:
        return InstanceStep(None)
    return InstanceStep(host_name(best[0]), weight, frozenset(map(host_name, best)), more)


def evaluation_record(*steps: InstanceStep, **facts: object) -> EvaluationRecord:
    for name in ("passed", "refused"):
        facts[name] = {host_name(key): value for key, value in dict(facts.get(name, {})).items()}
    return EvaluationRecord(steps=steps, **facts)


def outcome_on(name: str | None, **facts: object) -> NovaOutcome:
    return NovaOutcome(None if name is None else host_name(name), **facts)
