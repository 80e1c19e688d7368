"""Bodies and queries of flavor requests (compute API reference, "Flavors")."""

from placement_sched.api.compute.schemas.parts import (
    NAME,
    PAGE,
    Json,
    an_object,
    number,
    wrapped,
)
from placement_sched.api.schema import Schemas
from placement_sched.model.naming import FLAVOR_ID
from placement_sched.store.flavor_list import SORT_KEYS

_DESCRIPTION: Json = {"type": ["string", "null"], "maxLength": 65535, "format": "printable"}
_FLAVOR: Json = {
    "name": NAME,
    "id": {
        "type": ["string", "integer", "null"],
        "minLength": 1,
        "maxLength": 255,
        "pattern": FLAVOR_ID,
    },
    "ram": number(1),
    "vcpus": number(1),
    "disk": number(0),
    "swap": number(0),
    "OS-FLV-EXT-DATA:ephemeral": number(0),
    "rxtx_factor": {
        "type": ["number", "string"],
        "pattern": r"^[0-9]+(\.[0-9]+)?$(?!\n)",
        "maxLength": 255,
        "exclusiveMinimum": 0,
        "maximum": 3.40282e38,
    },
    "os-flavor-access:is_public": {"type": ["boolean", "string"]},
}
_REQUIRED = ["name", "ram", "vcpus", "disk"]


def _creation(flavor: Json) -> Json:
    return an_object({"flavor": an_object(flavor, required=_REQUIRED)}, required=["flavor"])


CREATE = Schemas(
    ((2, 1), _creation(_FLAVOR)),
    ((2, 55), _creation({**_FLAVOR, "description": _DESCRIPTION})),
)
UPDATE = wrapped(
    "flavor", an_object({"description": _DESCRIPTION}, required=["description"]), (2, 55)
)

_TENANT: Json = NAME
ADD_TENANT_ACCESS = wrapped("addTenantAccess", an_object({"tenant": _TENANT}, required=["tenant"]))
REMOVE_TENANT_ACCESS = wrapped(
    "removeTenantAccess", an_object({"tenant": _TENANT}, required=["tenant"])
)

_QUERY: Json = {
    "limit": PAGE,
    "marker": {"type": "string"},
    "is_public": {"type": "string"},
    "minRam": {"type": "string"},
    "minDisk": {"type": "string"},
    "sort_key": {"type": "string", "enum": sorted(SORT_KEYS)},
    "sort_dir": {"type": "string", "enum": ["asc", "desc"]},
}
LIST = Schemas(
    ((2, 1), {"type": "object", "properties": _QUERY}),
    ((2, 75), an_object(_QUERY)),
)
