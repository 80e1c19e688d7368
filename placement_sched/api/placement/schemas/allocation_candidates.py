"""Query strings of GET /allocation_candidates by microversion."""

from typing import Any

from placement_sched.api.placement.schemas.parts import (
    AMOUNTS,
    INTEGER,
    NAME,
    UPPER_CASE,
    UUID,
    UUID_KEY,
    UUID_OR_NULL,
    keyed,
    listing,
    record,
)
from placement_sched.api.schema import REPEATED, Json, Schemas

_RESOURCES = {"type": "string"}
_TEXT = {"type": "string"}
_TEXTS = {**_TEXT, REPEATED: True}
_LIMIT = {"type": "string", "pattern": "^[1-9][0-9]*$", "minLength": 1}
_SUFFIX = "([1-9][0-9]*)"
# Clients look for this pattern in the error: hence the question mark, which says nothing new.
_ANY_SUFFIX = "([a-zA-Z0-9_-]{1,64})?"


def _schema(names: dict[str, Any], patterns: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the schema of a query string with these parameters, and no others."""
    found: dict[str, Any] = {
        "type": "object",
        "properties": names,
        "additionalProperties": False,
    }
    if patterns:
        found["patternProperties"] = patterns
    else:
        found["required"] = ["resources"]
    return found


_1_10 = {"resources": _RESOURCES}
_1_16 = {**_1_10, "limit": _LIMIT}
_1_17 = {**_1_16, "required": _TEXT}
_1_21 = {**_1_17, "member_of": _TEXT}
_1_24 = {**_1_21, "member_of": _TEXTS}
_1_25 = {**_1_24, "group_policy": {"type": "string", "enum": ["none", "isolate"]}}
_1_31 = {**_1_25, "in_tree": _TEXT}
_1_35 = {**_1_31, "root_required": _TEXT}
_1_36 = {**_1_35, "same_subtree": _TEXTS}
_1_39 = {**_1_36, "required": _TEXTS}


def _suffixed(*names: str, suffix: str = _SUFFIX) -> dict[str, Any]:
    return {f"^{name}{suffix}$": _TEXT for name in names}


_GROUPS_1_25 = _suffixed("resources", "required", "member_of")
_GROUPS_1_31 = _suffixed("resources", "required", "member_of", "in_tree")
_GROUPS_1_33 = _suffixed("resources", "required", "member_of", "in_tree", suffix=_ANY_SUFFIX)

GET = Schemas(
    ((1, 10), _schema(_1_10)),
    ((1, 16), _schema(_1_16)),
    ((1, 17), _schema(_1_17)),
    ((1, 21), _schema(_1_21)),
    ((1, 24), _schema(_1_24)),
    ((1, 25), _schema(_1_25, _GROUPS_1_25)),
    ((1, 31), _schema(_1_31, _GROUPS_1_31)),
    ((1, 33), _schema(_1_31, _GROUPS_1_33)),
    ((1, 35), _schema(_1_35, _GROUPS_1_33)),
    ((1, 36), _schema(_1_36, _GROUPS_1_33)),
    ((1, 39), _schema(_1_39, _GROUPS_1_33)),
)

_USE = keyed(NAME, record(capacity=INTEGER, used=INTEGER))
_TRAITS = listing(UPPER_CASE)
_BY_PROVIDER = keyed(UUID_KEY, record(resources=AMOUNTS))
_REQUEST_1_10 = record(
    allocations=listing(record(resource_provider=record(uuid=UUID), resources=AMOUNTS))
)
_REQUEST_1_12 = record(allocations=_BY_PROVIDER)
_REQUEST_1_34 = record(
    allocations=_BY_PROVIDER, mappings=keyed("^[a-zA-Z0-9_-]{0,64}$", listing(UUID))
)
_SUMMARY_1_10 = record(resources=_USE)
_SUMMARY_1_17 = record(resources=_USE, traits=_TRAITS)
_SUMMARY_1_29 = record(
    resources=_USE, traits=_TRAITS, parent_provider_uuid=UUID_OR_NULL, root_provider_uuid=UUID
)


def _candidates(request: Json, summary: Json) -> Json:
    # Two ways to place a group may come to the same allocations before mappings tell them apart.
    requests = {"type": "array", "items": request}
    return record(allocation_requests=requests, provider_summaries=keyed(UUID_KEY, summary))


ANSWER = Schemas(
    ((1, 10), _candidates(_REQUEST_1_10, _SUMMARY_1_10)),
    ((1, 12), _candidates(_REQUEST_1_12, _SUMMARY_1_10)),
    ((1, 17), _candidates(_REQUEST_1_12, _SUMMARY_1_17)),
    ((1, 29), _candidates(_REQUEST_1_12, _SUMMARY_1_29)),
    ((1, 34), _candidates(_REQUEST_1_34, _SUMMARY_1_29)),
)
