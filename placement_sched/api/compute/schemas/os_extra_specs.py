"""Bodies of requests about extra specs (compute API reference, "Flavors extra-specs")."""

from placement_sched.api.compute.schemas.parts import Json, an_object, wrapped
from placement_sched.api.schema import Schemas
from placement_sched.model.naming import KEY

_VALUE: Json = {"type": ["string", "number"], "maxLength": 255}
_EXTRA_SPECS: Json = an_object({}, patternProperties={KEY: _VALUE})

CREATE = wrapped("extra_specs", _EXTRA_SPECS)
UPDATE = Schemas(((2, 1), {**_EXTRA_SPECS, "minProperties": 1, "maxProperties": 1}))
