# SPDX-License-Identifier: Apache-2.0
"""Schemas of the responses of capacity, plans and plan runs."""

from placement_sched.api.scheduler.responses import (
    CONSTRAINT,
    INTEGER,
    KIND,
    NULLABLE_TEXT,
    NUMBER,
    OBJECT,
    OTHER_CONSUMERS,
    TEXT,
    TEXTS,
    build_map,
    build_page_schema,
    build_schema,
    build_texts,
)
from placement_sched.api.validation import Schemas
from placement_sched.model import plan_run
from placement_sched.model.document import Json
from placement_sched.schemas.parts import (
    BOOLEAN,
    NULLABLE_UUID,
    UUID,
    build_list_schema,
    make_nullable,
)

_LIMIT = build_schema({"reason": TEXT, "hosts": INTEGER}, {**CONSTRAINT, "names": build_map(TEXT)})
_PART: Json = {
    "capacity": INTEGER,
    "limited_by": build_list_schema(_LIMIT),
    "stranded": build_map(INTEGER),
}
_PARTS = build_list_schema(build_schema({"name": TEXT, **_PART}))
_COUNT = build_schema(
    {**_PART, "exact": BOOLEAN},
    {
        **build_texts("policy", "rejection", "flavor"),
        **KIND,
        "inexact_because": TEXTS,
        "per": _PARTS,
    },
)
#: A count, or a list of counts if the request has flavors.
CAPACITY = Schemas({"anyOf": [_COUNT, build_schema({"flavors": build_list_schema(_COUNT)})]})

_NOWHERE = build_schema(
    {
        "uuid": UUID,
        **dict.fromkeys(("name", "flavor", "host"), NULLABLE_TEXT),
        "reason": TEXT,
        "lacking": build_map(INTEGER),
    },
    KIND,
)
_FAILURE = build_schema(
    {
        **build_texts("name", "state"),
        "hosts": TEXTS,
        **dict.fromkeys(("instances", "stuck"), INTEGER),
        "nowhere": build_list_schema(_NOWHERE),
    }
)
_BREAKS = build_schema({"domain": TEXT, "instances": INTEGER, "placed": INTEGER})
_ALLOWANCE = build_schema(
    {
        "flavor": TEXT,
        "remaining": INTEGER,
        "exact": BOOLEAN,
        "at_most": make_nullable(INTEGER),
        "breaks": make_nullable(_BREAKS),
    }
)
FAILOVER_CAPACITY = Schemas(
    build_schema(
        {
            **dict.fromkeys(("host_failures", "covered", "uncovered", "undetermined"), INTEGER),
            "within": NULLABLE_TEXT,
            "failures": build_list_schema(_FAILURE),
            "remaining": build_list_schema(_ALLOWANCE),
            "exact": BOOLEAN,
            "bound": NULLABLE_TEXT,
            **dict.fromkeys(("duration", "age"), NUMBER),
            "computed_at": TEXT,
        },
        # Absent if an earlier release has computed the result.
        {"other_consumers": build_schema(dict.fromkeys(("consumers", "hosts"), INTEGER))},
    )
)

_MOVE: Json = {"instance": UUID, **build_texts("from", "to")}
_FLAVOR_CHANGE = build_schema(
    {"flavor": TEXT, "before": INTEGER, "after": INTEGER, "exact": BOOLEAN}
)
_NAME: Json = {"name": NULLABLE_TEXT}
_MOVES = build_list_schema(build_schema(_MOVE, {"reason": TEXT, **KIND, **_NAME}))
_STUCK = build_list_schema(
    build_schema({"instance": UUID, **build_texts("host", "reason")}, {**KIND, **_NAME})
)
#: Unknown facts of requests, and their instances.
_UNKNOWN = build_map(build_list_schema(UUID))
_EVACUATION: Json = {
    "moves": _MOVES,
    "stuck": _STUCK,
    "other_consumers": OTHER_CONSUMERS,
    "unknown": _UNKNOWN,
}
EVACUATION = Schemas(build_schema(_EVACUATION))
PLAN = Schemas(build_schema({"capacity": build_list_schema(_FLAVOR_CHANGE), **_EVACUATION}))
_ADVICE: Json = {"reached": BOOLEAN, "outcome": TEXT, "complete": BOOLEAN, "unknown": _UNKNOWN}
_ADVISED_MOVE = build_schema({**_MOVE, "reason": TEXT, "passed": TEXTS, "weight": NUMBER}, _NAME)
REBALANCE = Schemas(
    build_schema({**_ADVICE, "moves": build_list_schema(_ADVISED_MOVE), "stuck": _STUCK})
)

_RUN: Json = {
    "uuid": UUID,
    "kind": {"enum": list(plan_run.KINDS)},
    "state": {"enum": list(plan_run.RUN_STATES)},
    "method": {"enum": list(plan_run.METHODS)},
    "parallel": INTEGER,
    "user_id": NULLABLE_TEXT,
    **build_texts("created_at", "updated_at"),
    "counts": build_schema(dict.fromkeys(plan_run.MOVE_STATES, INTEGER)),
}
_RUN_MOVE: Json = {
    **_MOVE,
    "state": {"enum": list(plan_run.MOVE_STATES)},
    "decision": NULLABLE_UUID,
    **dict.fromkeys(("started_at", "finished_at", "error"), NULLABLE_TEXT),
}
_RUN_PARTS: Json = {
    "request": OBJECT,
    "stuck": _STUCK,
    "moves": build_list_schema(build_schema(_RUN_MOVE)),
}
PLAN_RUNS = build_page_schema("plan_runs", build_schema(_RUN))
PLAN_RUN = Schemas(build_schema({**_RUN, **_RUN_PARTS}))
RUN_MOVE = Schemas(build_schema({**_RUN_MOVE, "rejection": NULLABLE_TEXT}, KIND))

_VIOLATION_REASON = build_schema(build_texts("rule", "family", "stage", "name", "reason"), KIND)
_VIOLATION: Json = {
    **build_texts("uuid", "name", "host"),
    **dict.fromkeys(("project_id", "flavor"), NULLABLE_TEXT),
    "reasons": build_list_schema(_VIOLATION_REASON),
}
_UNEXAMINED = build_schema({"reason": TEXT, "servers": INTEGER, "examples": TEXTS})
_REPORT: Json = {
    **dict.fromkeys(("servers", "total"), INTEGER),
    "computed_at": TEXT,
    "duration": NUMBER,
    "rules": build_list_schema(build_schema({"rule": TEXT, "servers": INTEGER})),
    "unknown": build_map(INTEGER),
    "unexamined": build_list_schema(_UNEXAMINED),
}
VIOLATIONS = build_page_schema("violations", build_schema(_VIOLATION), _REPORT)
VIOLATION_RUN = Schemas(build_schema({"started_at": TEXT}))
