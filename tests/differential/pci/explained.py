# SPDX-License-Identifier: Apache-2.0
"""Intended differences from nova, with changes of a case that make nova answer as we do."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.differential.pci.generate import PciCase


def _replace_missing_sockets(case: PciCase) -> PciCase:
    return replace(case, sockets=[]) if case.sockets is None else case


def _replace_empty_specs(case: PciCase) -> PciCase:
    return replace(
        case,
        requests=[
            request if request["spec"] else {**request, "spec": [{"vendor_id": "nobody"}]}
            for request in case.requests
        ],
    )


def _make_request_ids_distinct(case: PciCase) -> PciCase:
    ids = [str(request["request_id"]) for request in case.requests]
    is_ambiguous = any(other.startswith(id_) for id_ in ids for other in ids if id_ is not other)
    if not is_ambiguous and all(request["request_id"] is not None for request in case.requests):
        return case
    new = {request_id: f"a{number}a" for number, request_id in enumerate(ids)}

    def rename_suffixes(mappings: dict[str, list[str]]) -> dict[str, list[str]]:
        parts = {suffix: suffix.rpartition("-") for suffix in mappings}
        return {
            f"{new[id_]}-{number}" if dash and id_ in new else suffix: mappings[suffix]
            for suffix, (id_, dash, number) in parts.items()
        }

    requests: list[dict[str, Any]] = [
        {**request, "request_id": new[str(request["request_id"])]} for request in case.requests
    ]
    return replace(
        case,
        requests=requests,
        mappings=None if case.mappings is None else rename_suffixes(case.mappings),
        candidates=[rename_suffixes(mappings) for mappings in case.candidates],
    )


#: Changes that return a copy of a case without the cause of a difference.
EXPLANATIONS: dict[str, Callable[[PciCase], PciCase]] = {
    "A host that reports no NUMA nodes has no sockets": _replace_missing_sockets,
    "A request for devices without a spec finds none": _replace_empty_specs,
    "A request gets the devices of its own groups": _make_request_ids_distinct,
}
