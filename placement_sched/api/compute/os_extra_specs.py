# SPDX-License-Identifier: Apache-2.0
"""Routes of extra specs (compute API reference, "Flavors extra-specs")."""

from collections.abc import Mapping

from placement_sched.api.blueprint import Blueprint
from placement_sched.api.call import ApiCall, ApiResponse
from placement_sched.api.compute import microversions as mv
from placement_sched.api.compute.value_formats import visible_project, wrap_schema
from placement_sched.api.validation import Schemas
from placement_sched.errors import Invalid
from placement_sched.limits import MAX_EXTRA_SPECS
from placement_sched.model.document import Json
from placement_sched.model.names import KEY
from placement_sched.operations import flavors
from placement_sched.scheduler import extra_specs
from placement_sched.schemas.parts import object_schema

blueprint = Blueprint("os_extra_specs", __name__)

_POLICY = "os_compute_api:os-flavor-extra-specs"
_ALL = "/v2.1/flavors/<flavor_id>/os-extra_specs"
_ONE = f"{_ALL}/<key>"

_VALUE: Json = {"type": ["string", "number"], "maxLength": 255}
_EXTRA_SPECS: Json = object_schema({}) | {
    "patternProperties": {KEY: _VALUE},
    "maxProperties": MAX_EXTRA_SPECS,
}
CREATE = Schemas(wrap_schema("extra_specs", _EXTRA_SPECS))
UPDATE = Schemas(_EXTRA_SPECS | {"minProperties": 1, "maxProperties": 1})


@blueprint.get(_ALL, policy=f"{_POLICY}:index")
def index(call: ApiCall, flavor_id: str) -> ApiResponse:
    """List the extra specs of a flavor."""
    flavor = call.read(flavors.get, flavor_id, visible_project(call))
    return ApiResponse(body={"extra_specs": dict(flavor.extra_specs)})


@blueprint.post(_ALL, policy=f"{_POLICY}:create", body=CREATE)
def create(call: ApiCall, flavor_id: str) -> ApiResponse:
    """Add or change extra specs of a flavor."""
    return _set(call, flavor_id, call.body["extra_specs"])


@blueprint.get(_ONE, policy=f"{_POLICY}:show")
def show(call: ApiCall, flavor_id: str, key: str) -> ApiResponse:
    """Show an extra spec of a flavor."""
    flavor = call.read(flavors.get, flavor_id, visible_project(call))
    return ApiResponse(body={key: flavors.extra_spec(flavor, key)})


@blueprint.put(_ONE, policy=f"{_POLICY}:update", body=UPDATE)
def update(call: ApiCall, flavor_id: str, key: str) -> ApiResponse:
    """Set an extra spec of a flavor."""
    if key not in call.body:
        raise Invalid("Request body and URI mismatch")
    return _set(call, flavor_id, call.body)


@blueprint.delete(_ONE, policy=f"{_POLICY}:delete")
def delete(call: ApiCall, flavor_id: str, key: str) -> ApiResponse:
    """Delete an extra spec of a flavor."""
    call.write(flavors.remove_extra_spec, flavor_id, key)
    return ApiResponse()


def _set(call: ApiCall, flavor_id: str, values: Mapping[str, str | float]) -> ApiResponse:
    """Set all of the extra specs or none, and answer with the body.

    Numbers are stored as text.
    """
    changes = {key: str(value) for key, value in values.items()}
    if call.version.has(mv.EXTRA_SPEC_VALIDATION):
        for key, value in changes.items():
            extra_specs.check(key, value)
    call.write(flavors.set_extra_specs, flavor_id, changes, call.now())
    return ApiResponse(body=call.body)
