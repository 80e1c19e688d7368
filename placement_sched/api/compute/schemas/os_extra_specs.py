"""Bodies of requests about extra specs (compute API reference, "Flavors extra-specs")."""

from placement_sched.api.compute.schemas.parts import Json, an_object, wrapped
from placement_sched.api.schema import Schemas

_VALUE: Json = {"type": ["string", "number"], "maxLength": 255}
# A space at either end is refused: MariaDB takes "a" and "a " for the same key.
_KEY = r"^(?! )[a-zA-Z0-9:_. -]{1,255}(?<! )$(?!\n)"
_EXTRA_SPECS: Json = an_object({}, patternProperties={_KEY: _VALUE})

CREATE = wrapped("extra_specs", _EXTRA_SPECS)
UPDATE = Schemas(((2, 1), {**_EXTRA_SPECS, "minProperties": 1, "maxProperties": 1}))
