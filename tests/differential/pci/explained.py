# SPDX-License-Identifier: Apache-2.0
"""Differences that are meant: each with a question that nova answers as we answer the other."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tests.differential.pci.generate import PciCase


@dataclass(frozen=True)
class Explanation:
    """``mend`` makes of a question one that is free of what nova stumbles at."""

    name: str
    reason: str
    mend: Callable[[PciCase], PciCase]


def _case_with_topology(asked: PciCase) -> PciCase:
    return replace(asked, sockets=[]) if asked.sockets is None else asked


def _case_with_specs(asked: PciCase) -> PciCase:
    return replace(
        asked,
        requests=[
            one if one["spec"] else {**one, "spec": [{"vendor_id": "nobody"}]}
            for one in asked.requests
        ],
    )


def _case_with_distinct_request_ids(asked: PciCase) -> PciCase:
    ids = [str(one["request_id"]) for one in asked.requests]
    if not any(other.startswith(one) for one in ids for other in ids if one is not other) and all(
        one["request_id"] is not None for one in asked.requests
    ):
        return asked
    new = {one: f"a{number}a" for number, one in enumerate(ids)}

    def renamed(mappings: dict[str, list[str]]) -> dict[str, list[str]]:
        return {_rename_suffix(suffix, new): uuids for suffix, uuids in mappings.items()}

    requests: list[dict[str, Any]] = [
        {**one, "request_id": new[str(one["request_id"])]} for one in asked.requests
    ]
    return replace(
        asked,
        requests=requests,
        mappings=None if asked.mappings is None else renamed(asked.mappings),
        candidates=[renamed(one) for one in asked.candidates],
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
