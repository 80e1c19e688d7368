"""Image members: the schemas that clients read, and those of bodies.

Source: Image API reference, "Sharing".
"""

from typing import Any

from placement_sched.api.schema import Schemas
from placement_sched.model.naming import UUID
from placement_sched.model.stored_image import MEMBER_STATUSES

Json = dict[str, Any]

_STATUS: Json = {
    "type": "string",
    "enum": list(MEMBER_STATUSES),
    "description": "Whether the member has accepted the image.",
}
_PROJECT: Json = {"type": "string", "minLength": 1, "maxLength": 255, "format": "printable-name"}

#: What clients read at ``/v2/schemas/member``.
MEMBER: Json = {
    "name": "member",
    "properties": {
        "member_id": {"type": "string", "description": "The project, by id."},
        "image_id": {"type": "string", "pattern": UUID, "description": "The image's uuid."},
        "status": _STATUS,
        "created_at": {"type": "string", "description": "When the image was shared."},
        "updated_at": {"type": "string", "description": "When the status was changed last."},
        "schema": {"type": "string", "readOnly": True},
    },
}

#: What clients read at ``/v2/schemas/members``.
MEMBERS: Json = {
    "name": "members",
    "properties": {
        "members": {"type": "array", "items": MEMBER},
        "schema": {"type": "string"},
    },
    "links": [{"rel": "describedby", "href": "{schema}"}],
}

CREATE = Schemas(
    ((2, 0), {"type": "object", "properties": {"member": _PROJECT}, "required": ["member"]})
)
UPDATE = Schemas(
    ((2, 0), {"type": "object", "properties": {"status": _STATUS}, "required": ["status"]})
)
