"""Services as the compute API writes them, by microversion."""

from typing import Any

from placement_sched.api.call import Call
from placement_sched.api.compute.microversions import FORCED_DOWN, UUIDS
from placement_sched.api.compute.moments import in_microseconds
from placement_sched.model.service import Service

Json = dict[str, Any]


def shown(call: Call, service: Service, zone: str) -> Json:
    """Return a service whole; ``updated_at`` is when it was last heard of."""
    document: Json = {
        "id": name(call, service),
        "binary": service.binary,
        "host": service.host,
        "zone": zone,
        "status": status(service),
        "state": state(call, service),
        "updated_at": in_microseconds(service.last_seen_up or service.updated_at),
        "disabled_reason": service.disabled_reason,
    }
    if call.version.has(FORCED_DOWN):
        document["forced_down"] = service.forced_down
    return document


def name(call: Call, service: Service) -> int | str:
    """Return what addresses name a service by: its number, since 2.53 its uuid."""
    return service.uuid if call.version.has(UUIDS) else service.id


def status(service: Service) -> str:
    """Return whether operators want the service to be used."""
    return "disabled" if service.disabled else "enabled"


def state(call: Call, service: Service) -> str:
    """Return whether the service counts as up at this moment."""
    down_time = call.settings.DEFAULT.service_down_time
    return "up" if service.is_up(call.now(), down_time) else "down"
