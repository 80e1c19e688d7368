"""Routes of image tags."""

from placement_sched.api.blueprint import Blueprint
from placement_sched.api.call import Answer, Call
from placement_sched.api.image.conventions import changed
from placement_sched.api.schema import Schema
from placement_sched.operations import images
from placement_sched.schemas.fields import TAG

blueprint = Blueprint("image_tags", __name__)

_ONE = "/v2/images/<image_id>/tags/<tag>"
_TAG = Schema(TAG)


@blueprint.put(_ONE, policy="modify_image", success=(204,), refusals=(413,))
def add(call: Call, image_id: str, tag: str) -> Answer:
    """Tag an image."""
    _TAG.check(tag, "Invalid tag")
    return changed(call, images.add_tag, image_id, tag, call.now())


@blueprint.delete(_ONE, policy="modify_image", success=(204,))
def remove(call: Call, image_id: str, tag: str) -> Answer:
    """Remove a tag from an image."""
    return changed(call, images.remove_tag, image_id, tag, call.now())
