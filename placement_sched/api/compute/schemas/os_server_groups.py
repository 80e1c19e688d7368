"""Bodies and queries of server group requests (compute API reference, "Server groups")."""

from placement_sched.api.compute.schemas.parts import NAME, PAGE, Json, an_object, number
from placement_sched.api.schema import Schemas
from placement_sched.model.server_group import MOST_PER_HOST, POLICIES

_STRICT = ["affinity", "anti-affinity"]


def _creation(fields: Json, *required: str) -> Json:
    group = an_object({"name": NAME, **fields}, required=["name", *required])
    return an_object({"server_group": group}, required=["server_group"])


def _one_of(policies: list[str]) -> Json:
    """Return the schema of the list of policies, of which a group has one."""
    policy: Json = {"type": "string", "enum": policies}
    return {"type": "array", "items": policy, "minItems": 1, "maxItems": 1}


_RULES: Json = an_object({MOST_PER_HOST: number(1)})

CREATE = Schemas(
    ((2, 1), _creation({"policies": _one_of(_STRICT)}, "policies")),
    ((2, 15), _creation({"policies": _one_of(list(POLICIES))}, "policies")),
    (
        (2, 64),
        _creation(
            {"policy": {"type": "string", "enum": list(POLICIES)}, "rules": _RULES}, "policy"
        ),
    ),
)

_QUERY: Json = {
    "all_projects": {"type": "string"},
    "limit": PAGE,
    "offset": PAGE,
    "marker": {"type": "string"},
}
LIST = Schemas(
    ((2, 1), {"type": "object", "properties": _QUERY}),
    ((2, 75), an_object(_QUERY)),
)
