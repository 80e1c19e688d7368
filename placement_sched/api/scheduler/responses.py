# SPDX-License-Identifier: Apache-2.0
"""Schemas of the responses of the scheduler API.

Objects may have more keys than a schema names: later releases add keys, and clients ignore unknown
keys. Keys that a response may lack are not required.
"""

from typing import Any

from placement_sched.api.validation import Schemas
from placement_sched.explain.kinds import KINDS
from placement_sched.model import decision, plan_run
from placement_sched.model.document import Json
from placement_sched.model.rejection import OTHER
from placement_sched.scheduler.host_views import STATES
from placement_sched.schemas.parts import (
    BOOLEAN,
    NULLABLE_UUID,
    UUID,
    build_list_schema,
    make_nullable,
)

_TEXT: Json = {"type": "string"}
_INTEGER: Json = {"type": "integer"}
_NUMBER: Json = {"type": "number"}
_OBJECT: Json = {"type": "object"}
_NULLABLE_TEXT, _NULLABLE_OBJECT = make_nullable(_TEXT), make_nullable(_OBJECT)
_TEXTS, _INTEGERS, _OBJECTS = (
    build_list_schema(_TEXT),
    build_list_schema(_INTEGER),
    build_list_schema(_OBJECT),
)


def _schema(required: Json, optional: Json | None = None) -> Json:
    properties = {**required, **(optional or {})}
    return {"type": "object", "properties": properties, "required": list(required)}


def _build_texts(*names: str) -> Json:
    return dict.fromkeys(names, _TEXT)


def _map(values: Json) -> Json:
    return {"type": "object", "additionalProperties": values}


_LINKS = build_list_schema(_schema(_build_texts("rel", "href")))


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
    return Schemas(_schema({collection: build_list_schema(item), "links": _LINKS}, optional))


ROOT = Schemas(_schema({**_build_texts("id", "status"), "resources": _map(_TEXT)}))
COUNTS = Schemas(_schema(dict.fromkeys(("created", "changed", "unchanged"), _INTEGER)))

SELECTION = _schema(
    {
        **_build_texts("service_host", "nodename", "availability_zone"),
        "compute_node_uuid": UUID,
        "cell_uuid": NULLABLE_UUID,
        "limits": _OBJECT,
        "weight": _NUMBER,
        "allocation_request": _NULLABLE_OBJECT,
        "allocation_request_version": _NULLABLE_TEXT,
    }
)
#: A list for each instance: the chosen host, then the alternates.
_SELECTIONS = build_list_schema(build_list_schema(SELECTION, minItems=1))
_RESULT: Json = {"decision": UUID, "policy": _TEXT, "selections": _SELECTIONS}
_SELECTED = _schema(_RESULT, {"instance_uuids": build_list_schema(UUID)})
#: A result, or the results of several requests in their order.
SELECT = Schemas({"anyOf": [_SELECTED, _schema({"results": build_list_schema(_SELECTED)})]})

#: The kind of a rejection, constraint or limit. Entries of older decisions have none.
REJECTION_KIND: Json = {
    "type": "string",
    "description": (
        "The other keys are the values of the kind. Newer servers may have other kinds than "
        f"{', '.join((*KINDS, OTHER))}."
    ),
}
_KIND: Json = {"kind": REJECTION_KIND}
_COUNTS: Json = {"before": _INTEGER, "after": _INTEGER}
_REJECTION = _schema(_build_texts("host", "node", "reason"), _KIND)
_REJECTIONS: Json = {"rejected": build_list_schema(_REJECTION)}
_CONSTRAINT: Json = {"detail": _TEXT, **_KIND}
_STEP = _schema(
    {"constraint": _TEXT, **_COUNTS},
    {**_CONSTRAINT, "option": _TEXT, "option_source": _TEXT, "cut": _INTEGER, **_REJECTIONS},
)
_NEAR_MISS = _schema(
    {"constraint": _TEXT, "hosts": _INTEGER},
    {**_CONSTRAINT, "and": build_list_schema(_schema({"constraint": _TEXT}, _CONSTRAINT))},
)
_REQUEST_FILTER = _schema(
    {"name": _TEXT, "applied": BOOLEAN, "elapsed_ms": _NUMBER},
    {"changes": _OBJECT, **_build_texts("rejection", "reason"), **_KIND},
)
_SEARCH = _schema(
    {"query": _TEXT, "providers": _INTEGER, "hosts": _INTEGER, "steps": build_list_schema(_STEP)},
    {
        "nearest_misses": build_list_schema(_NEAR_MISS),
        "nearest_misses_complete": BOOLEAN,
        "fallback": _OBJECT,
    },
)
_STAGE: Json = _build_texts("stage", "name")
_OBSTACLE = _schema({**_STAGE, "reason": _TEXT}, _KIND)
_WOULD_FIT = _schema(
    {"words": _TEXT, "hosts": _INTEGER, "exact": BOOLEAN, "examples": _TEXTS},
    {"without": build_list_schema(_schema(_STAGE, _KIND)), "change": _NULLABLE_OBJECT},
)
_VERDICT = _schema(_build_texts("requested", "verdict"), {"reasons": build_list_schema(_OBSTACLE)})
#: The names of nova that a plugin has read and the shim lacks.
_MISSING: Json = {"missing_names": build_list_schema(_TEXT)}
#: A funnel, or the outline of a funnel that is too large to record.
FUNNEL = _schema(
    {
        "request_filters": build_list_schema(_REQUEST_FILTER),
        "allocation_candidates": _SEARCH,
        "filters": build_list_schema(
            _schema({"name": _TEXT, **_COUNTS}, {**_REJECTIONS, **_MISSING})
        ),
        "weighers": build_list_schema(_schema({"name": _TEXT, "multiplier": _NUMBER}, _MISSING)),
    },
    {
        **dict.fromkeys(("policy", "host_states", "room", "later_instance"), _OBJECT),
        "obstacle": _OBSTACLE,
        "warnings": _OBJECTS,
        "would_fit": build_list_schema(_WOULD_FIT),
        "outline": BOOLEAN,
    },
)
_HOST = _schema({**_build_texts("host", "node"), "weight": _NUMBER, "weights": _map(_OBJECT)})
_OUTCOME: Json = {"enum": [decision.SELECTED, decision.NO_VALID_HOST]}
EXPLANATION = _schema(
    {
        "outcome": _OUTCOME,
        "policy": _TEXT,
        "funnel": FUNNEL,
        "hosts": build_list_schema(_HOST),
        "selections": _SELECTIONS,
    },
    {"verdicts": build_list_schema(_VERDICT), "stages": _OBJECTS, "decision": UUID},
)
EXPLAIN = Schemas(EXPLANATION)

_NAMES = ("flavor", "project_id", "policy", "request_id", "global_request_id")
_SUMMARY: Json = {
    "uuid": UUID,
    "outcome": _OUTCOME,
    "kind": {"enum": list(decision.KINDS)},
    "created_at": _NULLABLE_TEXT,
    **dict.fromkeys(_NAMES, _NULLABLE_TEXT),
    **dict.fromkeys(("stage", "reason", "reason_kind", "reason_subject"), _NULLABLE_TEXT),
    "instances": build_list_schema(
        _schema({"uuid": UUID, "host": _NULLABLE_TEXT}, {"name": _NULLABLE_TEXT})
    ),
}
_ENTRY = _schema(_SUMMARY, {"rejections": _OBJECTS})
LIST_DECISIONS = build_page_schema("decisions", _ENTRY, {"rejected": _OBJECT, "warnings": _OBJECTS})
_COUNTED = build_list_schema(_schema({"name": _TEXT, "count": _INTEGER, "failed": _INTEGER}))
_REASON = _schema(
    {"name": _TEXT, "kind": _TEXT, "subject": _NULLABLE_TEXT, "count": _INTEGER, "failed": _INTEGER}
)
_BY_OUTCOME: Json = dict.fromkeys((decision.SELECTED, decision.NO_VALID_HOST), _INTEGER)
DECISION_COUNTS = Schemas(
    _schema(
        {
            "total": _INTEGER,
            "outcomes": _schema(_BY_OUTCOME),
            **dict.fromkeys(("stages", "flavors", "policies", "projects"), _COUNTED),
            "reasons": build_list_schema(_REASON),
            **_build_texts("since", "until"),
            "bucket_seconds": _INTEGER,
            "buckets": build_list_schema(_schema({"begin": _TEXT, **_BY_OUTCOME})),
        }
    )
)
DECISION = _schema(
    {
        **_SUMMARY,
        "request": _OBJECT,
        "funnel": make_nullable(FUNNEL),
        "best": build_list_schema(_HOST),
        "selections": _SELECTIONS,
        "conditions": _NULLABLE_OBJECT,
    }
)
SHOW_DECISION = Schemas(DECISION)
REPLAY = Schemas(_schema({"then": DECISION, "now": EXPLANATION, "differences": _OBJECTS}))

_LIMIT = _schema({"reason": _TEXT, "hosts": _INTEGER}, {**_CONSTRAINT, "names": _map(_TEXT)})
_PART: Json = {
    "capacity": _INTEGER,
    "limited_by": build_list_schema(_LIMIT),
    "stranded": _map(_INTEGER),
}
_PARTS = build_list_schema(_schema({"name": _TEXT, **_PART}))
_COUNT = _schema(
    {**_PART, "exact": BOOLEAN},
    {
        **_build_texts("policy", "rejection", "flavor"),
        **_KIND,
        "inexact_because": _TEXTS,
        "per": _PARTS,
    },
)
#: A count, or a list of counts if the request has flavors.
CAPACITY = Schemas({"anyOf": [_COUNT, _schema({"flavors": build_list_schema(_COUNT)})]})

_NOWHERE = _schema(
    {
        "uuid": UUID,
        **dict.fromkeys(("name", "flavor", "host"), _NULLABLE_TEXT),
        "reason": _TEXT,
        "lacking": _map(_INTEGER),
    },
    _KIND,
)
_FAILURE = _schema(
    {
        **_build_texts("name", "state"),
        "hosts": _TEXTS,
        **dict.fromkeys(("instances", "stuck"), _INTEGER),
        "nowhere": build_list_schema(_NOWHERE),
    }
)
_BREAKS = _schema({"domain": _TEXT, "instances": _INTEGER, "placed": _INTEGER})
_ALLOWANCE = _schema(
    {
        "flavor": _TEXT,
        "remaining": _INTEGER,
        "exact": BOOLEAN,
        "at_most": make_nullable(_INTEGER),
        "breaks": make_nullable(_BREAKS),
    }
)
FAILOVER_CAPACITY = Schemas(
    _schema(
        {
            **dict.fromkeys(("host_failures", "covered", "uncovered", "undetermined"), _INTEGER),
            "within": _NULLABLE_TEXT,
            "failures": build_list_schema(_FAILURE),
            "remaining": build_list_schema(_ALLOWANCE),
            "exact": BOOLEAN,
            "bound": _NULLABLE_TEXT,
            **dict.fromkeys(("duration", "age"), _NUMBER),
            "computed_at": _TEXT,
        },
        # Absent if an earlier release has computed the result.
        {"other_consumers": _schema(dict.fromkeys(("consumers", "hosts"), _INTEGER))},
    )
)

_MOVE: Json = {"instance": UUID, **_build_texts("from", "to")}
_FLAVOR_CHANGE = _schema({"flavor": _TEXT, "before": _INTEGER, "after": _INTEGER, "exact": BOOLEAN})
_NAME: Json = {"name": _NULLABLE_TEXT}
_MOVES = build_list_schema(_schema(_MOVE, {"reason": _TEXT, **_KIND, **_NAME}))
_STUCK = build_list_schema(
    _schema({"instance": UUID, **_build_texts("host", "reason")}, {**_KIND, **_NAME})
)
_CONSUMER: Json = {**_build_texts("host", "type", "uuid"), "project_id": _NULLABLE_TEXT}
_OTHER_CONSUMERS = build_list_schema(_schema({**_CONSUMER, "resources": _map(_INTEGER)}))
#: Unknown facts of requests, and their instances.
_UNKNOWN = _map(build_list_schema(UUID))
_PLAN: Json = {"capacity": build_list_schema(_FLAVOR_CHANGE), "moves": _MOVES, "stuck": _STUCK}
PLAN = Schemas(_schema({**_PLAN, "other_consumers": _OTHER_CONSUMERS, "unknown": _UNKNOWN}))
_ADVICE: Json = {"reached": BOOLEAN, "outcome": _TEXT, "complete": BOOLEAN, "unknown": _UNKNOWN}
_ADVISED_MOVE = _schema({**_MOVE, "reason": _TEXT, "passed": _TEXTS, "weight": _NUMBER}, _NAME)
REBALANCE = Schemas(_schema({**_ADVICE, "moves": build_list_schema(_ADVISED_MOVE)}))

_RUN: Json = {
    "uuid": UUID,
    "kind": {"enum": list(plan_run.KINDS)},
    "state": {"enum": list(plan_run.RUN_STATES)},
    "method": {"enum": list(plan_run.METHODS)},
    "parallel": _INTEGER,
    "user_id": _NULLABLE_TEXT,
    **_build_texts("created_at", "updated_at"),
    "counts": _schema(dict.fromkeys(plan_run.MOVE_STATES, _INTEGER)),
}
_RUN_MOVE: Json = {
    **_MOVE,
    "state": {"enum": list(plan_run.MOVE_STATES)},
    "decision": NULLABLE_UUID,
    **dict.fromkeys(("started_at", "finished_at", "error"), _NULLABLE_TEXT),
}
_RUN_PARTS: Json = {
    "request": _OBJECT,
    "stuck": _STUCK,
    "moves": build_list_schema(_schema(_RUN_MOVE)),
}
PLAN_RUNS = build_page_schema("plan_runs", _schema(_RUN))
PLAN_RUN = Schemas(_schema({**_RUN, **_RUN_PARTS}))
RUN_MOVE = Schemas(_schema({**_RUN_MOVE, "rejection": _NULLABLE_TEXT}))

_STATE: Json = {"enum": list(STATES)}
_LISTED_HOST = _schema(
    {
        **_build_texts("host", "node", "zone", "policy"),
        "uuid": UUID,
        "state": _STATE,
        **dict.fromkeys(("aggregates", "traits"), _INTEGERS),
        "instances": _INTEGER,
        "resources": _map(_schema({"capacity": _INTEGER, "used": _INTEGER})),
    }
)
_SHARED: Json = {"aggregates": _OBJECTS, "traits": _TEXTS, "cells": _OBJECTS}
HOSTS = build_page_schema("hosts", _LISTED_HOST, _SHARED)
_USE = _schema(dict.fromkeys(("used", "capacity", "hosts", "nearly_full", "full"), _INTEGER))
_SUMS: Json = {"hosts": _INTEGER, "instances": _INTEGER, "resources": _map(_USE)}
OVERVIEW = Schemas(
    _schema(
        {
            "hosts": _schema(dict.fromkeys(("total", *STATES), _INTEGER)),
            "instances": _INTEGER,
            "zones": build_list_schema(_schema({"zone": _TEXT, **_SUMS})),
            "aggregates": build_list_schema(_schema({"uuid": UUID, "name": _TEXT, **_SUMS})),
            "attention": build_list_schema(
                _schema({**_build_texts("host", "node", "zone"), "state": _STATE})
            ),
        }
    )
)
_POLICY = _schema(
    {
        "name": _TEXT,
        "usable": BOOLEAN,
        "error": _NULLABLE_TEXT,
        "options": _map(_OBJECT),
        **dict.fromkeys(("aggregates", "weighers"), _OBJECTS),
        **dict.fromkeys(("request_filters", "filters"), _TEXTS),
    }
)
_DETAILS = dict.fromkeys(("aggregates", "services", "nodes", "instances"), _OBJECTS)
_DETAILS["other_consumers"] = _OTHER_CONSUMERS
HOST = Schemas(
    _schema({**_build_texts("host", "zone"), "state": _STATE, "policy": _POLICY, **_DETAILS})
)
POLICY = Schemas(_POLICY)
_LISTS: Json = {"policies": build_list_schema(_POLICY), "selectors": _TEXTS}
POLICIES = Schemas(_schema({**_LISTS, "access": _OBJECT}))
CHECK = Schemas(_schema({"filtering": BOOLEAN, "aggregates": _OBJECTS, "findings": _OBJECTS}))
