"""What the query string of ``GET /usages`` looks like, by microversion."""

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
