# SPDX-License-Identifier: Apache-2.0
"""Routes of availability zones."""

from placement_sched.api.compute import format_time_in_microseconds
from placement_sched.api.routing import ApiCall, ApiResponse, Blueprint
from placement_sched.model.document import Json
from placement_sched.operations import aggregates
from placement_sched.operations.aggregates import Zone

blueprint = Blueprint("os_availability_zone", __name__)

_POLICY = "os_compute_api:os-availability-zone"
_ALL = "/v2.1/os-availability-zone"


@blueprint.get(_ALL, policy=f"{_POLICY}:list")
def index(call: ApiCall) -> ApiResponse:
    """List the zones that users may request, without hosts."""
    zones = call.read(aggregates.list_zones, call.settings)
    documents = [_build_document(zone, None) for zone in zones if not zone.internal]
    return ApiResponse(body={"availabilityZoneInfo": documents})


@blueprint.get(f"{_ALL}/detail", policy=f"{_POLICY}:detail")
def detail(call: ApiCall) -> ApiResponse:
    """List all zones. Available zones have their hosts and services."""
    zones = call.read(aggregates.list_zones, call.settings)
    documents = [
        _build_document(zone, _describe_hosts(call, zone) if zone.is_available else None)
        for zone in zones
    ]
    return ApiResponse(body={"availabilityZoneInfo": documents})


def _build_document(zone: Zone, hosts: Json | None) -> Json:
    return {"zoneName": zone.name, "zoneState": {"available": zone.is_available}, "hosts": hosts}


def _describe_hosts(call: ApiCall, zone: Zone) -> Json:
    now, down_time = call.read_clock(), call.settings.DEFAULT.service_down_time
    hosts: dict[str, Json] = {}
    for service in zone.services:
        hosts.setdefault(service.host, {})[service.binary] = {
            "available": service.is_up(now, down_time),
            "active": not service.disabled,
            "updated_at": format_time_in_microseconds(service.last_seen_up or service.updated_at),
        }
    return hosts
