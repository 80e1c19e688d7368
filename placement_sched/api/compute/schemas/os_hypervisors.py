"""Queries of requests about hypervisors (compute API reference, "Hypervisors")."""

from placement_sched.api.compute.schemas.parts import PAGE, Json, an_object
from placement_sched.api.schema import Schemas

_PAGE: Json = {"limit": PAGE, "marker": {"type": "string"}}
#: Whether it says yes or no, the reader says.
_WITH_SERVERS: Json = {"with_servers": {"type": "string"}}
_PATTERN: Json = {"hypervisor_hostname_pattern": {"type": "string", "minLength": 1}}

LIST = Schemas(
    ((2, 33), {"type": "object", "properties": _PAGE}),
    ((2, 53), an_object({**_PAGE, **_WITH_SERVERS, **_PATTERN})),
)
SHOW = Schemas(((2, 53), an_object(_WITH_SERVERS)))
