# SPDX-License-Identifier: Apache-2.0
"""Schemas of the responses of the scheduler API.

Objects may have more keys than a schema names: later releases add keys, and clients ignore unknown
keys. Keys that a response may lack are not required.
"""

from typing import Any

from placement_sched.api.validation import Schemas
from placement_sched.explain.kinds import KINDS
from placement_sched.explain.phrases import FURTHER_KINDS
from placement_sched.model import decision
from placement_sched.model.compute_node import HOST_STATES
from placement_sched.model.document import Json
from placement_sched.model.rejection import OTHER
from placement_sched.schemas.parts import (
    BOOLEAN,
    NULLABLE_UUID,
    UUID,
    build_list_schema,
    make_nullable,
)

TEXT: Json = {"type": "string"}
INTEGER: Json = {"type": "integer"}
NUMBER: Json = {"type": "number"}
OBJECT: Json = {"type": "object"}
NULLABLE_TEXT, NULLABLE_OBJECT = make_nullable(TEXT), make_nullable(OBJECT)
TEXTS, INTEGERS, OBJECTS = (
    build_list_schema(TEXT),
    build_list_schema(INTEGER),
    build_list_schema(OBJECT),
)


def build_schema(required: Json, optional: Json | None = None) -> Json:
    """Build the schema of an object, which may have more keys."""
    properties = {**required, **(optional or {})}
    return {"type": "object", "properties": properties, "required": list(required)}


def build_texts(*names: str) -> Json:
    """Build the schemas of keys whose values are texts."""
    return dict.fromkeys(names, TEXT)


def build_map(values: Json) -> Json:
    """Build the schema of an object with any keys and equal values."""
    return {"type": "object", "additionalProperties": values}


_LINKS = build_list_schema(build_schema(build_texts("rel", "href")))


def open_schema(schema: Json, fields: tuple[str, ...]) -> Json:
    """Convert a request's schema to a response's schema with all ``fields``."""
    return {**_allow_more_keys(schema), "required": list(fields)}


def _allow_more_keys(value: Any) -> Any:
    if isinstance(value, dict):
        items = [(key, inner) for key, inner in value.items() if inner is not False]
        return {key: _allow_more_keys(inner) for key, inner in items}
    return [_allow_more_keys(inner) for inner in value] if isinstance(value, list) else value


def build_page_schema(collection: str, item: Json, optional: Json | None = None) -> Schemas:
    """Build the schema of a page of a list."""
    return Schemas(build_schema({collection: build_list_schema(item), "links": _LINKS}, optional))


ROOT = Schemas(build_schema({**build_texts("id", "status"), "resources": build_map(TEXT)}))
COUNTS = Schemas(build_schema(dict.fromkeys(("created", "changed", "unchanged"), INTEGER)))

SELECTION = build_schema(
    {
        **build_texts("service_host", "nodename", "availability_zone"),
        "compute_node_uuid": UUID,
        "cell_uuid": NULLABLE_UUID,
        "limits": OBJECT,
        "weight": NUMBER,
        "allocation_request": NULLABLE_OBJECT,
        "allocation_request_version": NULLABLE_TEXT,
    }
)
#: A list for each instance: the chosen host, then the alternates.
_SELECTIONS = build_list_schema(build_list_schema(SELECTION, minItems=1))
_RESULT: Json = {"decision": UUID, "policy": TEXT, "selections": _SELECTIONS}
_SELECTED = build_schema(_RESULT, {"instance_uuids": build_list_schema(UUID)})
#: A result, or the results of several requests in their order.
SELECT = Schemas({"anyOf": [_SELECTED, build_schema({"results": build_list_schema(_SELECTED)})]})

#: The kind of a rejection, constraint or limit. Entries of older decisions have none.
REJECTION_KIND: Json = {
    "type": "string",
    "description": (
        "The other keys are the values of the kind. Newer servers may have other kinds than "
        f"{', '.join((*KINDS, OTHER, *FURTHER_KINDS))}."
    ),
}
KIND: Json = {"kind": REJECTION_KIND}
_COUNTS: Json = {"before": INTEGER, "after": INTEGER}
_REJECTION = build_schema(build_texts("host", "node", "reason"), KIND)
_REJECTIONS: Json = {"rejected": build_list_schema(_REJECTION)}
CONSTRAINT: Json = {"detail": TEXT, **KIND}
_STEP = build_schema(
    {"constraint": TEXT, **_COUNTS},
    {**CONSTRAINT, "option": TEXT, "option_source": TEXT, "cut": INTEGER, **_REJECTIONS},
)
_NEAR_MISS = build_schema(
    {"constraint": TEXT, "hosts": INTEGER},
    {**CONSTRAINT, "and": build_list_schema(build_schema({"constraint": TEXT}, CONSTRAINT))},
)
_REQUEST_FILTER = build_schema(
    {"name": TEXT, "applied": BOOLEAN, "elapsed_ms": NUMBER},
    {"changes": OBJECT, **build_texts("rejection", "reason"), **KIND},
)
_SEARCH = build_schema(
    {"query": TEXT, "providers": INTEGER, "hosts": INTEGER, "steps": build_list_schema(_STEP)},
    {
        "nearest_misses": build_list_schema(_NEAR_MISS),
        "nearest_misses_complete": BOOLEAN,
        "fallback": OBJECT,
    },
)
_STAGE: Json = build_texts("stage", "name")
_OBSTACLE = build_schema({**_STAGE, "reason": TEXT}, KIND)
_WOULD_FIT = build_schema(
    {"words": TEXT, "hosts": INTEGER, "exact": BOOLEAN, "examples": TEXTS},
    {"without": build_list_schema(build_schema(_STAGE, KIND)), "change": NULLABLE_OBJECT},
)
_VERDICT = build_schema(
    build_texts("requested", "verdict"), {"reasons": build_list_schema(_OBSTACLE)}
)
#: The names of nova that a plugin has read and the shim lacks.
_MISSING: Json = {"missing_names": build_list_schema(TEXT)}
#: A host that passed because a filter reads an unknown field of its report.
_NOT_EXAMINED = build_texts("host", "node", "field")
#: A funnel, or the outline of a funnel that is too large to record.
FUNNEL = build_schema(
    {
        "request_filters": build_list_schema(_REQUEST_FILTER),
        "allocation_candidates": _SEARCH,
        "filters": build_list_schema(
            build_schema(
                {"name": TEXT, **_COUNTS},
                {
                    **_REJECTIONS,
                    **_MISSING,
                    "not_examined": build_list_schema(build_schema(_NOT_EXAMINED)),
                },
            )
        ),
        "weighers": build_list_schema(
            build_schema({"name": TEXT, "multiplier": NUMBER}, {**_MISSING, "not_examined": TEXT})
        ),
    },
    {
        **dict.fromkeys(("policy", "host_states", "room", "later_instance"), OBJECT),
        "obstacle": _OBSTACLE,
        "warnings": OBJECTS,
        "would_fit": build_list_schema(_WOULD_FIT),
        "outline": BOOLEAN,
    },
)
_HOST = build_schema(
    {**build_texts("host", "node"), "weight": NUMBER, "weights": build_map(OBJECT)}
)
_OUTCOME: Json = {"enum": [decision.SELECTED, decision.NO_VALID_HOST]}
EXPLANATION = build_schema(
    {
        "outcome": _OUTCOME,
        "policy": TEXT,
        "funnel": FUNNEL,
        "hosts": build_list_schema(_HOST),
        "selections": _SELECTIONS,
    },
    {"verdicts": build_list_schema(_VERDICT), "stages": OBJECTS, "decision": UUID},
)
EXPLAIN = Schemas(EXPLANATION)

_NAMES = ("flavor", "project_id", "policy", "request_id", "global_request_id")
_SUMMARY: Json = {
    "uuid": UUID,
    "outcome": _OUTCOME,
    "kind": {"enum": list(decision.KINDS)},
    "created_at": NULLABLE_TEXT,
    **dict.fromkeys(_NAMES, NULLABLE_TEXT),
    **dict.fromkeys(("stage", "reason", "reason_kind", "reason_subject"), NULLABLE_TEXT),
    "instances": build_list_schema(
        build_schema({"uuid": UUID, "host": NULLABLE_TEXT}, {"name": NULLABLE_TEXT})
    ),
}
_ENTRY = build_schema(_SUMMARY, {"rejections": OBJECTS})
LIST_DECISIONS = build_page_schema("decisions", _ENTRY, {"rejected": OBJECT, "warnings": OBJECTS})
_COUNTED = build_list_schema(build_schema({"name": TEXT, "count": INTEGER, "failed": INTEGER}))
_REASON = build_schema(
    {"name": TEXT, "kind": TEXT, "subject": NULLABLE_TEXT, "count": INTEGER, "failed": INTEGER}
)
_BY_OUTCOME: Json = dict.fromkeys((decision.SELECTED, decision.NO_VALID_HOST), INTEGER)
DECISION_COUNTS = Schemas(
    build_schema(
        {
            "total": INTEGER,
            "outcomes": build_schema(_BY_OUTCOME),
            **dict.fromkeys(("stages", "flavors", "policies", "projects"), _COUNTED),
            "reasons": build_list_schema(_REASON),
            **build_texts("since", "until"),
            "bucket_seconds": INTEGER,
            "buckets": build_list_schema(build_schema({"begin": TEXT, **_BY_OUTCOME})),
        }
    )
)
DECISION = build_schema(
    {
        **_SUMMARY,
        "request": OBJECT,
        "funnel": make_nullable(FUNNEL),
        "best": build_list_schema(_HOST),
        "selections": _SELECTIONS,
        "conditions": NULLABLE_OBJECT,
    }
)
SHOW_DECISION = Schemas(DECISION)
REPLAY = Schemas(build_schema({"then": DECISION, "now": EXPLANATION, "differences": OBJECTS}))

_CONSUMER: Json = {**build_texts("host", "type", "uuid"), "project_id": NULLABLE_TEXT}
OTHER_CONSUMERS = build_list_schema(build_schema({**_CONSUMER, "resources": build_map(INTEGER)}))

_STATE: Json = {"enum": list(HOST_STATES)}
_LISTED_HOST = build_schema(
    {
        **build_texts("host", "node", "zone", "policy"),
        "uuid": UUID,
        "state": _STATE,
        **dict.fromkeys(("aggregates", "traits"), INTEGERS),
        "instances": INTEGER,
        "resources": build_map(build_schema({"capacity": INTEGER, "used": INTEGER})),
    }
)
_SHARED: Json = {"aggregates": OBJECTS, "traits": TEXTS, "cells": OBJECTS}
HOSTS = build_page_schema("hosts", _LISTED_HOST, _SHARED)
_USE = build_schema(dict.fromkeys(("used", "capacity", "hosts", "nearly_full", "full"), INTEGER))
_SUMS: Json = {"hosts": INTEGER, "instances": INTEGER, "resources": build_map(_USE)}
OVERVIEW = Schemas(
    build_schema(
        {
            "hosts": build_schema(dict.fromkeys(("total", *HOST_STATES), INTEGER)),
            "instances": INTEGER,
            "zones": build_list_schema(build_schema({"zone": TEXT, **_SUMS})),
            "aggregates": build_list_schema(build_schema({"uuid": UUID, "name": TEXT, **_SUMS})),
            "attention": build_list_schema(
                build_schema({**build_texts("host", "node", "zone"), "state": _STATE})
            ),
        }
    )
)
_POLICY = build_schema(
    {
        "name": TEXT,
        "usable": BOOLEAN,
        "error": NULLABLE_TEXT,
        "options": build_map(OBJECT),
        **dict.fromkeys(("aggregates", "weighers"), OBJECTS),
        **dict.fromkeys(("request_filters", "filters"), TEXTS),
    }
)
_DETAILS = dict.fromkeys(("aggregates", "services", "nodes", "instances"), OBJECTS)
_DETAILS["other_consumers"] = OTHER_CONSUMERS
HOST = Schemas(
    build_schema({**build_texts("host", "zone"), "state": _STATE, "policy": _POLICY, **_DETAILS})
)
POLICY = Schemas(_POLICY)
_LISTS: Json = {"policies": build_list_schema(_POLICY), "selectors": TEXTS}
POLICIES = Schemas(build_schema({**_LISTS, "access": OBJECT}))
CHECK = Schemas(build_schema({"filtering": BOOLEAN, "aggregates": OBJECTS, "findings": OBJECTS}))
