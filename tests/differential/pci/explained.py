# SPDX-License-Identifier: Apache-2.0
"""Intended differences from nova, each with a change that makes nova answer as we do."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tests.differential.pci.generate import PciCase


@dataclass(frozen=True)
class Explanation:
    """``change`` returns a copy of a case without the cause of the difference."""

    name: str
    reason: str
    change: Callable[[PciCase], PciCase]


def _case_with_topology(case: PciCase) -> PciCase:
    return replace(case, sockets=[]) if case.sockets is None else case


def _case_with_specs(case: PciCase) -> PciCase:
    return replace(
        case,
        requests=[
            request if request["spec"] else {**request, "spec": [{"vendor_id": "nobody"}]}
            for request in case.requests
        ],
    )


def _case_with_distinct_request_ids(case: PciCase) -> PciCase:
    ids = [str(request["request_id"]) for request in case.requests]
    is_ambiguous = any(other.startswith(id_) for id_ in ids for other in ids if id_ is not other)
    if not is_ambiguous and all(request["request_id"] is not None for request in case.requests):
        return case
    new = {request_id: f"a{number}a" for number, request_id in enumerate(ids)}

    def renamed(mappings: dict[str, list[str]]) -> dict[str, list[str]]:
        return {_rename_suffix(suffix, new): uuids for suffix, uuids in mappings.items()}

    requests: list[dict[str, Any]] = [
        {**request, "request_id": new[str(request["request_id"])]} for request in case.requests
    ]
    return replace(
        case,
        requests=requests,
        mappings=None if case.mappings is None else renamed(case.mappings),
        candidates=[renamed(mappings) for mappings in case.candidates],
    )


def _rename_suffix(suffix: str, new: dict[str, str]) -> str:
    request_id, dash, number = suffix.rpartition("-")
    return f"{new[request_id]}-{number}" if dash and request_id in new else suffix


EXPLANATIONS = (
    Explanation(
        "A host that reports no NUMA nodes has no sockets",
        "Devices that must be on the sockets of an instance are not found on such a host; nova "
        "fails on it.",
        _case_with_topology,
    ),
    Explanation(
        "A request for devices without a spec finds none",
        "An alias without any spec, which only a client of this API can send, is refused by each "
        "host; nova fails.",
        _case_with_specs,
    ),
    Explanation(
        "A request gets the devices of its own groups",
        "Groups are identified by the whole id of a PCI request. nova takes those whose name "
        "begins with it, of which two may be alike if callers name them, and fails if there is "
        "no id.",
        _case_with_distinct_request_ids,
    ),
)
