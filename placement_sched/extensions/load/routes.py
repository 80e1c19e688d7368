# SPDX-License-Identifier: Apache-2.0
"""Routes of ``/load``, which read the stored values."""

from placement_sched.api.policy import ADMIN_OR_SERVICE, Rule
from placement_sched.api.routing import ApiCall, ApiResponse, Blueprint
from placement_sched.api.scheduler.responses import (
    INTEGER,
    NULLABLE_TEXT,
    NUMBER,
    TEXT,
    TEXTS,
    build_map,
    build_schema,
    build_texts,
)
from placement_sched.api.validation import Schemas
from placement_sched.extensions.load.values import HOST, SERVER, STATES
from placement_sched.extensions.load.views import LoadView
from placement_sched.schemas.parts import BOOLEAN, UUID, build_list_schema, make_nullable

_NULLABLE_NUMBER = make_nullable(NUMBER)
_VALUES = build_list_schema(
    build_schema(
        {
            "query": TEXT,
            "state": {"type": "string", "enum": list(STATES)},
            "value": _NULLABLE_NUMBER,
            "smoothed": _NULLABLE_NUMBER,
            "measured_at": NULLABLE_TEXT,
            "age": _NULLABLE_NUMBER,
        }
    )
)
_COUNTS = (
    *("series", "without_label", "matched", "unmatched", "missing"),
    *("several_series", "not_a_number", "out_of_range"),
)
_RESULT = build_schema(
    {
        **dict.fromkeys(_COUNTS, INTEGER),
        "labels": TEXTS,
        "missing_names": TEXTS,
        "unmatched_labels": build_map(NULLABLE_TEXT),
    }
)
_QUERY = build_schema(
    {
        "kind": {"type": "string", "enum": [HOST, SERVER]},
        **build_texts("name", "query", "label"),
        "old": INTEGER,
        "youngest": _NULLABLE_NUMBER,
        "oldest": _NULLABLE_NUMBER,
        "collected_at": NULLABLE_TEXT,
        "error": NULLABLE_TEXT,
        "result": make_nullable(_RESULT),
    }
)
_HOST = {"host": TEXT, "values": _VALUES}
LOAD = Schemas(
    build_schema(
        {
            "collects": BOOLEAN,
            **dict.fromkeys(("interval", "max_age", "half_life"), INTEGER),
            "queries": build_list_schema(_QUERY),
            "hosts": build_list_schema(build_schema(_HOST)),
        }
    )
)
_SERVERS = build_list_schema(build_schema({"uuid": UUID, "values": _VALUES}))
HOST_LOAD = Schemas(build_schema({**_HOST, "servers": _SERVERS}))

blueprint = Blueprint("load", __name__)


@blueprint.get("/v1/load", policy="scheduler:load:list", response=LOAD)
def index(call: ApiCall) -> ApiResponse:
    """List the queries of load with their last results, and the load of hosts."""
    with call.services.database.read() as connection:
        view = LoadView(connection, call.services.settings, call.read_clock())
        return ApiResponse(body=view.list_load())


@blueprint.get("/v1/load/<path:host>", policy="scheduler:load:show", response=HOST_LOAD)
def show(call: ApiCall, host: str) -> ApiResponse:
    """Show the load of a host and of its servers."""
    with call.services.database.read() as connection:
        view = LoadView(connection, call.services.settings, call.read_clock())
        return ApiResponse(body=view.show_host(host))


BLUEPRINTS = (blueprint,)
POLICY_RULES = (
    Rule("scheduler:load:list", ADMIN_OR_SERVICE, "List the load of hosts."),
    Rule("scheduler:load:show", ADMIN_OR_SERVICE, "Show the load of a host and of its servers."),
)
