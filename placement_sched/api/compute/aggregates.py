# SPDX-License-Identifier: Apache-2.0
"""Routes of host aggregates and availability zones (compute API)."""

from collections.abc import Callable
from functools import partial
from uuid import uuid4

from placement_sched.api.compute import LARGEST, format_time_in_microseconds, wrap_schema
from placement_sched.api.compute import microversions as mv
from placement_sched.api.routing import ApiCall, ApiResponse, Blueprint
from placement_sched.api.validation import Schemas
from placement_sched.api.versions import Version
from placement_sched.errors import Invalid, NotFound
from placement_sched.limits import MAX_AGGREGATE_METADATA
from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.document import Json
from placement_sched.operations import aggregates
from placement_sched.operations.aggregates import Zone
from placement_sched.operations.nova_cloud import NovaObjectKind
from placement_sched.schemas import parts
from placement_sched.store.compute.host_aggregates import read_snapshot

blueprint = Blueprint("os_aggregates", __name__, changes=NovaObjectKind.HOST_AGGREGATES)

_POLICY = "os_compute_api:os-aggregates"
_COLLECTION_PATH = "/v2.1/os-aggregates"
_ITEM_PATH = f"{_COLLECTION_PATH}/<aggregate_id>"
_action = partial(blueprint.post, f"{_ITEM_PATH}/action", errors=(409,))

_FIELDS: Json = {"name": parts.PRINTABLE_NAME, "availability_zone": parts.make_nullable(parts.ZONE)}
_METADATA: Json = {
    "type": "object",
    "patternProperties": {parts.KEY["pattern"]: parts.make_nullable(parts.VALUE)},
    "additionalProperties": False,
    "maxProperties": MAX_AGGREGATE_METADATA,
}
_IMAGES: Json = {"type": "array", "minItems": 1, "items": wrap_schema("id", parts.UUID)}
CREATE = Schemas(wrap_schema("aggregate", parts.build_object_schema(_FIELDS, "name")))
#: As in nova, a new name may have blanks at its ends, which are removed.
_CHANGES = {**_FIELDS, "name": {**parts.PRINTABLE_NAME, "format": "printable", "pattern": r"\S"}}
UPDATE = Schemas(
    wrap_schema("aggregate", parts.build_object_schema(_CHANGES) | {"minProperties": 1})
)
ADD_HOST = Schemas(wrap_schema("add_host", wrap_schema("host", parts.HOST)))
REMOVE_HOST = Schemas(wrap_schema("remove_host", wrap_schema("host", parts.HOST)))
SET_METADATA = Schemas(wrap_schema("set_metadata", wrap_schema("metadata", _METADATA)))
IMAGES = Schemas(wrap_schema("cache", _IMAGES))


@blueprint.get(_COLLECTION_PATH, policy=f"{_POLICY}:index")
def index(call: ApiCall) -> ApiResponse:
    """List the host aggregates."""
    rows = call.read(read_snapshot)
    return ApiResponse(body={"aggregates": [_build_document(row, call.version) for row in rows]})


@blueprint.post(_COLLECTION_PATH, policy=f"{_POLICY}:create", body=CREATE, errors=(409,))
def create(call: ApiCall) -> ApiResponse:
    """Create a host aggregate."""
    fields = call.body["aggregate"]
    zone = fields.get("availability_zone")
    aggregate = call.write(aggregates.create, str(uuid4()), fields["name"], zone, call.read_clock())
    document = _build_document(aggregate, call.version)
    # As in nova, the response for a new aggregate lacks hosts and metadata.
    del document["hosts"], document["metadata"]
    return ApiResponse(body={"aggregate": document})


@blueprint.get(_ITEM_PATH, policy=f"{_POLICY}:show")
def show(call: ApiCall, aggregate_id: str) -> ApiResponse:
    """Show a host aggregate."""
    return _respond(call, call.read(aggregates.get, _parse_id(aggregate_id)))


@blueprint.put(_ITEM_PATH, policy=f"{_POLICY}:update", body=UPDATE, errors=(409,))
def update(call: ApiCall, aggregate_id: str) -> ApiResponse:
    """Change a host aggregate's name or availability zone."""
    fields, now = dict(call.body["aggregate"]), call.read_clock()
    if "name" in fields:
        fields["name"] = fields["name"].strip()
    return _respond(call, call.write(aggregates.update, _parse_id(aggregate_id), fields, now))


@blueprint.delete(_ITEM_PATH, policy=f"{_POLICY}:delete")
def delete(call: ApiCall, aggregate_id: str) -> ApiResponse:
    """Delete a host aggregate without hosts."""
    call.write(aggregates.delete, _parse_id(aggregate_id))
    return ApiResponse()


@_action(policy=f"{_POLICY}:add_host", action="add_host", body=ADD_HOST)
def add_host(call: ApiCall, aggregate_id: str) -> ApiResponse:
    """Add a host to a host aggregate.

    The host's providers are added to the placement aggregate with the same uuid.
    """
    return _change(call, aggregate_id, aggregates.add_hosts, [call.body["add_host"]["host"]])


@_action(policy=f"{_POLICY}:remove_host", action="remove_host", body=REMOVE_HOST)
def remove_host(call: ApiCall, aggregate_id: str) -> ApiResponse:
    """Remove a host from a host aggregate.

    The host's providers are removed from the placement aggregate with the same uuid.
    """
    host = call.body["remove_host"]["host"]
    return _change(call, aggregate_id, aggregates.remove_host, host)


@_action(policy=f"{_POLICY}:set_metadata", action="set_metadata", body=SET_METADATA)
def set_metadata(call: ApiCall, aggregate_id: str) -> ApiResponse:
    """Set metadata keys. A null value removes the key."""
    changes = call.body["set_metadata"]["metadata"]
    return _change(call, aggregate_id, aggregates.set_metadata, changes)


@blueprint.post(
    f"{_ITEM_PATH}/images",
    policy="compute:aggregates:images",
    since=mv.IMAGE_CACHING,
    body=IMAGES,
    success=(202,),
    changes=None,  # no aggregate is changed
)
def cache_images(call: ApiCall, aggregate_id: str) -> ApiResponse:
    """Accept and ignore a request to cache images, as no image data exists."""
    number = _parse_id(aggregate_id)
    image_ids = [image["id"] for image in call.body["cache"]]
    if len(set(image_ids)) != len(image_ids):
        raise Invalid("Duplicate images in request", json_path="$.cache")
    call.read(aggregates.get, number)
    return ApiResponse(status=202)


def _change(
    call: ApiCall, aggregate_id: str, operation: Callable[..., HostAggregate], change: object
) -> ApiResponse:
    number, now, policies = _parse_id(aggregate_id), call.read_clock(), call.get_policies()
    return _respond(call, call.write(operation, number, change, now, policies))


def _respond(call: ApiCall, aggregate: HostAggregate) -> ApiResponse:
    return ApiResponse(body={"aggregate": _build_document(aggregate, call.version)})


def _parse_id(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise Invalid("Invalid input received: the aggregate id must be an integer") from None
    if not 0 < number <= LARGEST:
        raise NotFound(f"Aggregate {text} could not be found.")
    return number


def _build_document(aggregate: HostAggregate, version: Version) -> Json:
    return {
        "id": aggregate.id,
        **({"uuid": aggregate.uuid} if version.has(mv.AGGREGATE_UUIDS) else {}),
        "name": aggregate.name,
        "hosts": sorted(aggregate.hosts),
        "metadata": dict(aggregate.metadata),
        "created_at": format_time_in_microseconds(aggregate.created_at),
        "updated_at": format_time_in_microseconds(aggregate.updated_at),
        # Unlike nova, this service deletes the rows of deleted aggregates.
        "deleted_at": None,
        "deleted": False,
        "availability_zone": aggregate.availability_zone,
    }


zones_blueprint = Blueprint("os_availability_zone", __name__)

_ZONES_POLICY = "os_compute_api:os-availability-zone"
_ZONES = "/v2.1/os-availability-zone"


@zones_blueprint.get(_ZONES, policy=f"{_ZONES_POLICY}:list")
def list_zones(call: ApiCall) -> ApiResponse:
    """List the zones that users may request, without hosts."""
    zones = call.read(aggregates.list_zones, call.settings)
    documents = [_build_zone_document(zone, None) for zone in zones if not zone.internal]
    return ApiResponse(body={"availabilityZoneInfo": documents})


@zones_blueprint.get(f"{_ZONES}/detail", policy=f"{_ZONES_POLICY}:detail")
def list_zones_in_detail(call: ApiCall) -> ApiResponse:
    """List all zones, with the hosts and services of available zones."""
    zones = call.read(aggregates.list_zones, call.settings)
    documents = [
        _build_zone_document(zone, _describe_hosts(call, zone) if zone.is_available else None)
        for zone in zones
    ]
    return ApiResponse(body={"availabilityZoneInfo": documents})


def _build_zone_document(zone: Zone, hosts: Json | None) -> Json:
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
