# SPDX-License-Identifier: Apache-2.0
"""Routes of hosts and of the check of host aggregates."""

from placement_sched.api.paging import build_page, parse_limit_and_marker
from placement_sched.api.routing import ApiCall, ApiResponse, Blueprint
from placement_sched.api.scheduler import responses
from placement_sched.api.scheduler.host_views import HostQuery, list_hosts, show_host, sum_cloud
from placement_sched.api.validation import Schemas
from placement_sched.model.compute_node import HOST_STATES
from placement_sched.operations.aggregate_check import check_aggregates
from placement_sched.schemas.parts import NAME, PAGING, build_object_schema

blueprint = Blueprint("hosts", __name__)

_POLICY = "scheduler:hosts"
#: If these parameters are repeated, the last value counts.
_SINGLE_VALUED = ("host", "search", "zone", "aggregate")

LIST = Schemas(
    build_object_schema(
        dict.fromkeys((*_SINGLE_VALUED, "trait"), NAME)
        | {"state": {"type": "string", "enum": list(HOST_STATES)}}
        | PAGING
    )
)


@blueprint.get("/v1/hosts", policy=f"{_POLICY}:list", query=LIST, response=responses.HOSTS)
def index(call: ApiCall) -> ApiResponse:
    """List hosts with state, zone, policy, aggregates, traits and resources."""
    limit, marker = parse_limit_and_marker(call)
    filters = HostQuery(
        **{name: value for name, value in call.query if name in _SINGLE_VALUED},
        states=call.list_values("state"),
        traits=call.list_values("trait"),
        marker=marker,
        limit=limit,
    )
    document = list_hosts(call.services.scheduler, filters)
    return ApiResponse(body=document | build_page(call, "hosts", document["hosts"]).body)


@blueprint.get("/v1/overview", policy=f"{_POLICY}:list", response=responses.OVERVIEW)
def overview(call: ApiCall) -> ApiResponse:
    """Count hosts by state, and sum resources by zone and aggregate."""
    return ApiResponse(body=sum_cloud(call.services.scheduler))


@blueprint.get("/v1/hosts/<path:host>", policy=f"{_POLICY}:show", response=responses.HOST)
def show(call: ApiCall, host: str) -> ApiResponse:
    """Show a host with its nodes, providers and instances."""
    return ApiResponse(body=show_host(call.services.scheduler, host))


@blueprint.get("/v1/aggregate_check", policy="scheduler:aggregate_check", response=responses.CHECK)
def check(call: ApiCall) -> ApiResponse:
    """Check aggregates that reserve hosts by traits, and who may use them."""
    scheduler = call.services.scheduler
    with scheduler.database.read() as connection:
        result = check_aggregates(connection, scheduler.live.get_settings())
    return ApiResponse(body=result.as_json())
