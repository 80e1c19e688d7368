# SPDX-License-Identifier: Apache-2.0
"""Builders of explanations in the format of the scheduler API."""

from itertools import zip_longest


def build_stage(before: int, after: int, rejected=(), values=(), **more) -> dict:
    """Build a stage from pairs of a host and a reason, with values."""
    entries = [
        {"host": host, "node": host, "reason": reason, **own}
        for (host, reason), own in zip_longest(rejected, values, fillvalue={})
    ]
    return {"before": before, "after": after, "rejected": entries, **more}


def build_step(constraint: str, detail: str, before: int, after: int, rejected=()) -> dict:
    return build_stage(before, after, rejected, constraint=constraint, detail=detail)


def build_weighed_host(name: str, weight: float, **weights) -> dict:
    return {"host": name, "node": name, "weight": weight, "weights": weights}


def build_weight(normalized: float, raw: float, multiplier: float = 1.0) -> dict:
    return {
        "raw": raw,
        "normalized": normalized,
        "multiplier": multiplier,
        "weighted": normalized * multiplier,
    }


def build_explanation(
    *, steps=(), filters=(), hosts=(), request_filters=(), weighers=(), **more
) -> dict:
    return {
        "outcome": "selected" if hosts else "no_valid_host",
        "policy": "default",
        "funnel": {
            "request_filters": list(request_filters),
            "allocation_candidates": {
                "query": "resources=VCPU%3A1",
                "providers": 4,
                "hosts": len(hosts),
                "steps": list(steps),
                **more,
            },
            "filters": list(filters),
            "weighers": [{"name": name, "multiplier": 1.0} for name in weighers],
        },
        "hosts": list(hosts),
        "selections": [],
    }


def build_selection(instance: str, name: str, **amounts: int) -> dict:
    return {
        "instance": instance,
        "service_host": name,
        "nodename": name,
        "availability_zone": "nova",
        "allocation_request": {"allocations": {f"uuid-of-{name}": {"resources": amounts}}},
    }
