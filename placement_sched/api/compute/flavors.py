# SPDX-License-Identifier: Apache-2.0
"""Routes of flavors and their extra specs (compute API, "Flavors")."""

from collections.abc import Callable, Mapping
from functools import partial
from urllib.parse import quote
from uuid import uuid4

from placement_sched.api import compute
from placement_sched.api.compute import LARGEST, TEXT, get_visible_project, wrap_schema
from placement_sched.api.compute import microversions as mv
from placement_sched.api.paging import build_next_links, parse_page_size
from placement_sched.api.routing import ApiCall, ApiResponse, Blueprint
from placement_sched.api.validation import Schemas
from placement_sched.errors import Invalid
from placement_sched.limits import MAX_EXTRA_SPECS
from placement_sched.model.document import Json
from placement_sched.model.flavor import Flavor
from placement_sched.model.names import KEY
from placement_sched.model.provider import MAX_FLOAT
from placement_sched.operations import flavors_images
from placement_sched.scheduler import extra_specs
from placement_sched.schemas.formats import parse_boolean
from placement_sched.schemas.parts import (
    DESCRIPTION,
    FLAVOR_ID,
    PRINTABLE_NAME,
    build_object_schema,
)
from placement_sched.store.compute.flavors import SORT_KEYS, FlavorQuery, search

blueprint = Blueprint("flavors", __name__)

_READ = "os_compute_api:flavors"
_MANAGE = "os_compute_api:os-flavor-manage"
_ACCESS = "os_compute_api:os-flavor-access"
_COLLECTION_PATH = "/v2.1/flavors"
_ITEM_PATH = f"{_COLLECTION_PATH}/<flavor_id>"
_action = partial(blueprint.post, f"{_ITEM_PATH}/action")

_PUBLIC = "os-flavor-access:is_public"
#: The numbers of a flavor: JSON key, field and minimum.
_NUMBERS = {
    "ram": ("memory_mb", 1),
    "vcpus": ("vcpus", 1),
    "disk": ("root_gb", 0),
    "swap": ("swap", 0),
    "OS-FLV-EXT-DATA:ephemeral": ("ephemeral_gb", 0),
}
_FLAVOR: Json = {
    "name": PRINTABLE_NAME,
    "id": {**FLAVOR_ID, "type": ["string", "integer", "null"]},
    **{key: compute.build_number_schema(minimum) for key, (_, minimum) in _NUMBERS.items()},
    "rxtx_factor": {
        "type": ["number", "string"],
        "pattern": r"^[0-9]+(\.[0-9]+)?$(?!\n)",
        "maxLength": 255,
        "exclusiveMinimum": 0,
        "maximum": MAX_FLOAT,
    },
    _PUBLIC: {"type": ["boolean", "string"]},
}
_REQUIRED = ("name", "ram", "vcpus", "disk")
_DESCRIPTION: Json = {"description": DESCRIPTION}

CREATE = Schemas(
    (mv.OLDEST, wrap_schema("flavor", build_object_schema(_FLAVOR, *_REQUIRED))),
    (
        mv.FLAVOR_DESCRIPTION,
        wrap_schema("flavor", build_object_schema(_FLAVOR | _DESCRIPTION, *_REQUIRED)),
    ),
)
UPDATE = Schemas(wrap_schema("flavor", build_object_schema(_DESCRIPTION, "description")))
ADD_TENANT_ACCESS = Schemas(wrap_schema("addTenantAccess", wrap_schema("tenant", PRINTABLE_NAME)))
REMOVE_TENANT_ACCESS = Schemas(
    wrap_schema("removeTenantAccess", wrap_schema("tenant", PRINTABLE_NAME))
)
LIST = compute.build_query_schema(
    {
        "limit": compute.PAGE,
        **dict.fromkeys(("marker", "is_public", "minRam", "minDisk"), TEXT),
        "sort_key": {"type": "string", "enum": sorted(SORT_KEYS)},
        "sort_dir": {"type": "string", "enum": ["asc", "desc"]},
    }
)


@blueprint.get(_COLLECTION_PATH, policy=_READ, query=LIST)
def index(call: ApiCall) -> ApiResponse:
    """List the flavors that the caller may see, by name and id."""
    return _build_page(call, "flavors", _summarize, extra_specs=False)


@blueprint.get(f"{_COLLECTION_PATH}/detail", policy=_READ, query=LIST)
def detail(call: ApiCall) -> ApiResponse:
    """List the flavors that the caller may see, with all fields."""
    return _build_page(call, "flavors/detail", _build_document, extra_specs=True)


def _build_page(
    call: ApiCall, path: str, render: Callable[[ApiCall, Flavor], Json], *, extra_specs: bool
) -> ApiResponse:
    page = call.read(search, _parse_query(call), extra_specs=extra_specs)
    links = build_next_links(call, path, [flavor.flavorid for flavor in page])
    return ApiResponse(body={"flavors": [render(call, flavor) for flavor in page], **links})


@blueprint.post(_COLLECTION_PATH, policy=f"{_MANAGE}:create", body=CREATE, errors=(409,))
def create(call: ApiCall) -> ApiResponse:
    """Create a flavor."""
    flavor = call.write(
        flavors_images.create_flavor, _parse_flavor(call.body["flavor"]), call.read_clock()
    )
    return ApiResponse(body={"flavor": _build_document(call, flavor)})


@blueprint.get(_ITEM_PATH, policy=_READ)
def show(call: ApiCall, flavor_id: str) -> ApiResponse:
    """Show a flavor that the caller may see."""
    flavor = call.read(flavors_images.get_flavor, flavor_id, compute.get_visible_project(call))
    return ApiResponse(body={"flavor": _build_document(call, flavor)})


@blueprint.put(_ITEM_PATH, policy=f"{_MANAGE}:update", since=mv.FLAVOR_DESCRIPTION, body=UPDATE)
def update(call: ApiCall, flavor_id: str) -> ApiResponse:
    """Change the description of a flavor, its only mutable field."""
    description = call.body["flavor"]["description"]
    flavor = call.write(flavors_images.describe_flavor, flavor_id, description, call.read_clock())
    return ApiResponse(body={"flavor": _build_document(call, flavor)})


@blueprint.delete(_ITEM_PATH, policy=f"{_MANAGE}:delete", success=(202,))
def delete(call: ApiCall, flavor_id: str) -> ApiResponse:
    """Delete a flavor."""
    call.write(flavors_images.delete_flavor, flavor_id)
    return ApiResponse(status=202)


@blueprint.get(f"{_ITEM_PATH}/os-flavor-access", policy=_ACCESS)
def access(call: ApiCall, flavor_id: str) -> ApiResponse:
    """List the projects that may use a private flavor."""
    return _build_access(flavor_id, call.read(flavors_images.list_flavor_projects, flavor_id))


@_action(
    policy=f"{_ACCESS}:add_tenant_access",
    action="addTenantAccess",
    body=ADD_TENANT_ACCESS,
    errors=(409,),
)
def add_tenant_access(call: ApiCall, flavor_id: str) -> ApiResponse:
    """Grant a project access to a private flavor."""
    project = call.body["addTenantAccess"]["tenant"]
    public = not call.version.has(mv.NO_ACCESS_TO_PUBLIC_FLAVORS)
    projects = call.write(
        flavors_images.add_flavor_access, flavor_id, project, call.read_clock(), public=public
    )
    return _build_access(flavor_id, projects)


@_action(
    policy=f"{_ACCESS}:remove_tenant_access", action="removeTenantAccess", body=REMOVE_TENANT_ACCESS
)
def remove_tenant_access(call: ApiCall, flavor_id: str) -> ApiResponse:
    """Revoke a project's access to a private flavor."""
    project = call.body["removeTenantAccess"]["tenant"]
    projects = call.write(flavors_images.remove_flavor_access, flavor_id, project)
    return _build_access(flavor_id, projects)


def _build_access(flavor_id: str, projects: tuple[str, ...]) -> ApiResponse:
    access = [{"flavor_id": flavor_id, "tenant_id": project} for project in projects]
    return ApiResponse(body={"flavor_access": access})


def _parse_flavor(body: Json) -> Flavor:
    flavorid = uuid4() if body.get("id") is None else body["id"]
    factor = float(body.get("rxtx_factor", 1.0))
    numbers: Json = {
        name: compute.parse_bounded(body[key], minimum, f"$.flavor.{key}")
        for key, (name, minimum) in _NUMBERS.items()
        if key in body
    }
    if not 0 < factor <= MAX_FLOAT:
        raise Invalid(
            f"rxtx_factor must be more than 0 and at most {MAX_FLOAT}, got {factor}",
            json_path="$.flavor.rxtx_factor",
        )
    return Flavor(
        flavorid=str(int(flavorid)) if isinstance(flavorid, float) else str(flavorid),
        name=body["name"],
        **numbers,
        rxtx_factor=factor,
        is_public=parse_boolean(
            body.get(_PUBLIC, True),
            f"'{body.get(_PUBLIC)}' is not a boolean (at $.flavor['{_PUBLIC}'])",
        ),
        description=body.get("description"),
    )


def _summarize(call: ApiCall, flavor: Flavor) -> Json:
    links = compute.build_links(call, f"flavors/{quote(str(flavor.flavorid))}")
    document: Json = {"id": flavor.flavorid, "name": flavor.name, "links": links}
    if call.version.has(mv.FLAVOR_DESCRIPTION):
        document["description"] = flavor.description
    return document


def _build_document(call: ApiCall, flavor: Flavor) -> Json:
    document = _summarize(call, flavor) | {
        **{key: getattr(flavor, name) for key, (name, _) in _NUMBERS.items()},
        "rxtx_factor": flavor.rxtx_factor,
        "OS-FLV-DISABLED:disabled": flavor.disabled,
        _PUBLIC: flavor.is_public,
    }
    if not (flavor.swap or call.version.has(mv.CONSISTENT)):
        document["swap"] = ""
    index = "os_compute_api:os-flavor-extra-specs:index"
    if call.version.has(mv.FLAVOR_EXTRA_SPECS) and call.is_allowed(index):
        document["extra_specs"] = dict(flavor.extra_specs)
    return document


def _parse_query(call: ApiCall) -> FlavorQuery:
    is_confined = compute.get_visible_project(call) is not None
    value = call.find_value("is_public")
    is_public: bool | None = True
    if value is not None and not is_confined:
        message = f"Invalid is_public filter [{value}]"
        is_public = None if value.lower() == "none" else parse_boolean(value, message)
    minimums: dict[str, int | None] = {}
    for key in ("minRam", "minDisk"):
        text = call.find_value(key)
        try:
            # Databases cannot compare with numbers beyond the range of the column.
            minimums[key] = None if text is None else max(min(int(text), LARGEST + 1), 0)
        except ValueError:
            raise Invalid(f"Invalid {key} filter [{text}]") from None
    return FlavorQuery(
        is_public=is_public,
        confined=is_confined,
        project_id=call.identity.project_id,
        min_memory_mb=minimums["minRam"],
        min_root_gb=minimums["minDisk"],
        sort_key=call.find_value("sort_key") or "flavorid",
        descending=call.find_value("sort_dir") == "desc",
        marker=call.find_value("marker"),
        limit=parse_page_size(call),
    )


extra_specs_blueprint = Blueprint("os_extra_specs", __name__)

_EXTRA_SPECS_POLICY = "os_compute_api:os-flavor-extra-specs"
_EXTRA_SPECS_PATH = "/v2.1/flavors/<flavor_id>/os-extra_specs"
_EXTRA_SPEC_PATH = f"{_EXTRA_SPECS_PATH}/<key>"

_VALUE: Json = {"type": ["string", "number"], "maxLength": 255}
_EXTRA_SPECS: Json = build_object_schema({}) | {
    "patternProperties": {KEY: _VALUE},
    "maxProperties": MAX_EXTRA_SPECS,
}
CREATE_EXTRA_SPECS = Schemas(wrap_schema("extra_specs", _EXTRA_SPECS))
UPDATE_EXTRA_SPEC = Schemas(_EXTRA_SPECS | {"minProperties": 1, "maxProperties": 1})


@extra_specs_blueprint.get(_EXTRA_SPECS_PATH, policy=f"{_EXTRA_SPECS_POLICY}:index")
def index_extra_specs(call: ApiCall, flavor_id: str) -> ApiResponse:
    """List the extra specs of a flavor."""
    flavor = call.read(flavors_images.get_flavor, flavor_id, get_visible_project(call))
    return ApiResponse(body={"extra_specs": dict(flavor.extra_specs)})


@extra_specs_blueprint.post(
    _EXTRA_SPECS_PATH, policy=f"{_EXTRA_SPECS_POLICY}:create", body=CREATE_EXTRA_SPECS
)
def create_extra_specs(call: ApiCall, flavor_id: str) -> ApiResponse:
    """Add or change extra specs of a flavor."""
    return _set_extra_specs(call, flavor_id, call.body["extra_specs"])


@extra_specs_blueprint.get(_EXTRA_SPEC_PATH, policy=f"{_EXTRA_SPECS_POLICY}:show")
def show_extra_spec(call: ApiCall, flavor_id: str, key: str) -> ApiResponse:
    """Show an extra spec of a flavor."""
    flavor = call.read(flavors_images.get_flavor, flavor_id, get_visible_project(call))
    return ApiResponse(body={key: flavors_images.get_extra_spec(flavor, key)})


@extra_specs_blueprint.put(
    _EXTRA_SPEC_PATH, policy=f"{_EXTRA_SPECS_POLICY}:update", body=UPDATE_EXTRA_SPEC
)
def update_extra_spec(call: ApiCall, flavor_id: str, key: str) -> ApiResponse:
    """Set an extra spec of a flavor."""
    if key not in call.body:
        raise Invalid("Request body and URI mismatch")
    return _set_extra_specs(call, flavor_id, call.body)


@extra_specs_blueprint.delete(_EXTRA_SPEC_PATH, policy=f"{_EXTRA_SPECS_POLICY}:delete")
def delete_extra_spec(call: ApiCall, flavor_id: str, key: str) -> ApiResponse:
    """Delete an extra spec of a flavor."""
    call.write(flavors_images.remove_extra_spec, flavor_id, key)
    return ApiResponse()


def _set_extra_specs(
    call: ApiCall, flavor_id: str, values: Mapping[str, str | float]
) -> ApiResponse:
    changes = {key: str(value) for key, value in values.items()}
    if call.version.has(mv.EXTRA_SPEC_VALIDATION):
        for key, value in changes.items():
            extra_specs.check(key, value)
    call.write(flavors_images.set_extra_specs, flavor_id, changes, call.read_clock())
    return ApiResponse(body=call.body)
