"""Bodies and queries of requests about services (compute API reference, "Compute services")."""

from placement_sched.api.compute.schemas.parts import Json, an_object
from placement_sched.api.schema import Schemas
from placement_sched.model import naming

_HOST: Json = {
    "type": "string",
    "minLength": 1,
    "maxLength": 255,
    "pattern": naming.HOST,
}
_TEXT: Json = {"type": "string", "minLength": 1, "maxLength": 255}
#: Words for yes and no are taken as well; which, the reader says.
_YES_OR_NO: Json = {"type": ["boolean", "string"], "maxLength": 255}

_NAMED: Json = {"host": _HOST, "binary": _TEXT}
_REASONED: Json = {**_NAMED, "disabled_reason": _TEXT}
_FORCED: Json = {**_REASONED, "forced_down": _YES_OR_NO}


def _by_name(*more: str) -> Schemas:
    """Return the schema of a change of the service of a host and a binary."""
    required = ["host", "binary", *more]
    return Schemas(
        ((2, 1), an_object(_REASONED, required=required)),
        ((2, 11), an_object(_FORCED, required=required)),
    )


BY_NAME = _by_name()
DISABLE_WITH_REASON = _by_name("disabled_reason")
FORCE_DOWN = Schemas(((2, 11), an_object(_FORCED, required=["host", "binary", "forced_down"])))

_CHANGE: Json = {
    "status": {"type": "string", "enum": ["enabled", "disabled"]},
    "disabled_reason": _TEXT,
    "forced_down": _YES_OR_NO,
}
UPDATE = Schemas(((2, 53), an_object(_CHANGE)))

_FILTERS: Json = {"host": {"type": "string"}, "binary": {"type": "string"}}
LIST = Schemas(
    ((2, 1), {"type": "object", "properties": _FILTERS}),
    ((2, 75), an_object(_FILTERS)),
)
