"""What the OpenAPI document looks like, as far as anybody would check it by this."""

from placement_sched.api.schema import Schemas

SHOW_ANSWER = Schemas(
    (
        (1, 0),
        {
            "type": "object",
            "properties": {
                "openapi": {"type": "string", "pattern": r"^3\.1\.[0-9]+$"},
                "info": {"type": "object"},
                "paths": {"type": "object"},
            },
            "required": ["openapi", "info", "paths"],
        },
    )
)
