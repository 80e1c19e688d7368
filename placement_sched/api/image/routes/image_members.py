"""Routes of image members: the projects that an image is shared with (API reference, "Sharing")."""

from placement_sched.api.blueprint import Blueprint
from placement_sched.api.call import Answer, Call
from placement_sched.api.image.conventions import change, changed, member_document, viewer_of
from placement_sched.api.schema import Schemas
from placement_sched.operations import images
from placement_sched.schemas.fields import MEMBER_STATUS, NAME

blueprint = Blueprint("image_members", __name__)

_ALL = "/v2/images/<image_id>/members"
_ONE = f"{_ALL}/<member_id>"

CREATE = Schemas({"type": "object", "properties": {"member": NAME}, "required": ["member"]})
UPDATE = Schemas(
    {"type": "object", "properties": {"status": MEMBER_STATUS}, "required": ["status"]}
)


@blueprint.get(_ALL, policy="get_members")
def index(call: Call, image_id: str) -> Answer:
    """Return the members of an image."""
    found = call.read(images.members_of, image_id.lower(), viewer_of(call))
    members = [member_document(member) for member in found]
    return Answer(body={"members": members, "schema": "/v2/schemas/members"})


@blueprint.post(_ALL, policy="add_member", body=CREATE, refusals=(409,))
def create(call: Call, image_id: str) -> Answer:
    """Share an image with a project, which may accept it."""
    member = change(call, images.add_member, image_id, call.body["member"], call.now())
    return Answer(body=member_document(member))


@blueprint.get(_ONE, policy="get_member")
def show(call: Call, image_id: str, member_id: str) -> Answer:
    """Return one member of an image."""
    member = call.read(images.member, image_id.lower(), viewer_of(call), member_id)
    return Answer(body=member_document(member))


@blueprint.put(_ONE, policy="modify_member", body=UPDATE)
def update(call: Call, image_id: str, member_id: str) -> Answer:
    """Accept a shared image, reject it, or make it pending again."""
    status, now = call.body["status"], call.now()
    member = change(call, images.set_member_status, image_id, member_id, status, now)
    return Answer(body=member_document(member))


@blueprint.delete(_ONE, policy="delete_member", success=(204,))
def delete(call: Call, image_id: str, member_id: str) -> Answer:
    """Stop sharing an image with a project."""
    return changed(call, images.remove_member, image_id, member_id)
