"""Routes of availability zones."""

from datetime import datetime
from typing import Any

from placement_sched.api.call import Answer, Call
from placement_sched.api.compute.moments import in_microseconds
from placement_sched.api.route import Route
from placement_sched.model.service import Service
from placement_sched.operations import availability_zones
from placement_sched.operations.availability_zones import Zone


def index(call: Call) -> Answer:
    """Return the zones that users may ask for, without hosts."""
    zones = [_document(zone, None) for zone in _zones(call) if not zone.internal]
    return Answer(body={"availabilityZoneInfo": zones})


def detail(call: Call) -> Answer:
    """Return all zones with the hosts of those that are available, and their services."""
    now = call.now()
    zones = [
        _document(zone, _hosts(call, zone, now) if zone.is_available else None)
        for zone in _zones(call)
    ]
    return Answer(body={"availabilityZoneInfo": zones})


def _zones(call: Call) -> tuple[Zone, ...]:
    with call.services.database.read() as connection:
        return availability_zones.every(connection, call.settings)


def _document(zone: Zone, hosts: dict[str, Any] | None) -> dict[str, Any]:
    return {"zoneName": zone.name, "zoneState": {"available": zone.is_available}, "hosts": hosts}


def _hosts(call: Call, zone: Zone, now: datetime) -> dict[str, Any]:
    hosts: dict[str, dict[str, Any]] = {}
    for service in zone.services:
        hosts.setdefault(service.host, {})[service.binary] = _service(call, service, now)
    return hosts


def _service(call: Call, service: Service, now: datetime) -> dict[str, Any]:
    return {
        "available": service.is_up(now, call.settings.DEFAULT.service_down_time),
        "active": not service.disabled,
        "updated_at": in_microseconds(service.last_seen_up or service.updated_at),
    }


_POLICY = "os_compute_api:os-availability-zone"
_ALL = "/v2.1/os-availability-zone"

ROUTES = (
    Route(
        method="GET", path=_ALL, handler=index, policy=f"{_POLICY}:list", statuses=(200, 401, 403)
    ),
    Route(
        method="GET",
        path=f"{_ALL}/detail",
        handler=detail,
        policy=f"{_POLICY}:detail",
        statuses=(200, 401, 403),
    ),
)
