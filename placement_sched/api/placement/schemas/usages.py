"""What the query string of ``GET /usages`` looks like, by microversion."""

from placement_sched.api.placement.schemas.parts import AMOUNTS, INTEGER, NAME, keyed, record
from placement_sched.api.schema import Json, Schemas

_OWNER: Json = {"type": "string", "minLength": 1, "maxLength": 255}


def _query(**properties: Json) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": ["project_id"],
        "additionalProperties": False,
    }


GET = Schemas(
    ((1, 9), _query(project_id=_OWNER, user_id=_OWNER)),
    (
        (1, 38),
        _query(
            project_id=_OWNER,
            user_id=_OWNER,
            consumer_type={
                "type": "string",
                "minLength": 1,
                "maxLength": 255,
                "pattern": "^([A-Z0-9_]+|all|unknown)$",
            },
        ),
    ),
)

# Consumers are counted beside what they use.
_BY_TYPE: Json = {
    "type": "object",
    "properties": {"consumer_count": INTEGER},
    "required": ["consumer_count"],
    "patternProperties": {NAME: INTEGER},
    "additionalProperties": False,
}

ANSWER = Schemas(
    ((1, 9), record(usages=AMOUNTS)),
    ((1, 38), record(usages=keyed("^([A-Z0-9_]+|all|unknown)$", _BY_TYPE))),
)

OF_PROVIDER_ANSWER = Schemas(((1, 0), record(resource_provider_generation=INTEGER, usages=AMOUNTS)))
