# SPDX-License-Identifier: Apache-2.0
"""Notes and outcomes for tests of the comparison, by names of hosts."""

from placement_sched.nova.shadow.comparing import (
    EvaluationRecord,
    HostName,
    InstanceStep,
    NovaOutcome,
)


def host(name: str) -> HostName:
    return HostName(name, name)


def step(*best: str, weight: float = 1.0, more: int = 0) -> InstanceStep:
    if not best:
        return InstanceStep(None)
    return InstanceStep(host(best[0]), weight, frozenset(map(host, best)), more)


def notes(*steps: InstanceStep, **facts: object) -> EvaluationRecord:
    for name in ("passed", "refused"):
        facts[name] = {host(key): value for key, value in dict(facts.get(name, {})).items()}
    return EvaluationRecord(steps=steps, **facts)


def on(name: str | None, **facts: object) -> NovaOutcome:
    return NovaOutcome(None if name is None else host(name), **facts)
