"""Query strings of GET /allocation_candidates by microversion."""

from typing import Any

from placement_sched.api.schema import Schemas

_RESOURCES = {"type": "string"}
_TEXT = {"type": "string"}
_LIMIT = {"type": "string", "pattern": "^[1-9][0-9]*$", "minLength": 1}
_SUFFIX = "([1-9][0-9]*)"
_ANY_SUFFIX = "([a-zA-Z0-9_-]{1,64})"


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
_1_25 = {**_1_21, "group_policy": {"type": "string", "enum": ["none", "isolate"]}}
_1_31 = {**_1_25, "in_tree": _TEXT}
_1_35 = {**_1_31, "root_required": _TEXT}
_1_36 = {**_1_35, "same_subtree": _TEXT}


def _suffixed(*names: str, suffix: str = _SUFFIX) -> dict[str, Any]:
    return {f"^{name}{suffix}$": _TEXT for name in names}


GET = Schemas(
    ((1, 10), _schema(_1_10)),
    ((1, 16), _schema(_1_16)),
    ((1, 17), _schema(_1_17)),
    ((1, 21), _schema(_1_21)),
    ((1, 25), _schema(_1_25, _suffixed("resources", "required", "member_of"))),
    ((1, 31), _schema(_1_31, _suffixed("resources", "required", "member_of", "in_tree"))),
    (
        (1, 33),
        _schema(
            _1_31, _suffixed("resources", "required", "member_of", "in_tree", suffix=_ANY_SUFFIX)
        ),
    ),
    (
        (1, 35),
        _schema(
            _1_35, _suffixed("resources", "required", "member_of", "in_tree", suffix=_ANY_SUFFIX)
        ),
    ),
    (
        (1, 36),
        _schema(
            _1_36, _suffixed("resources", "required", "member_of", "in_tree", suffix=_ANY_SUFFIX)
        ),
    ),
)
