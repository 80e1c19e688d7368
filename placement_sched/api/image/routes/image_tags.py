"""Routes of image tags."""

from placement_sched.api.call import Answer, Call
from placement_sched.api.image.schemas.images import NAME
from placement_sched.api.image.viewer import viewer_of
from placement_sched.api.route import Route
from placement_sched.api.schema import Schema
from placement_sched.operations import images

_TAG = Schema(NAME)


def add(call: Call, image_id: str, tag: str) -> Answer:
    """Tag an image."""
    _TAG.check(tag, "Invalid tag")
    viewer = viewer_of(call)
    call.services.database.write(
        lambda connection: images.add_tag(connection, image_id.lower(), viewer, tag, call.now())
    )
    return Answer(status=204)


def remove(call: Call, image_id: str, tag: str) -> Answer:
    """Take a tag from an image."""
    viewer = viewer_of(call)
    call.services.database.write(
        lambda connection: images.remove_tag(connection, image_id.lower(), viewer, tag, call.now())
    )
    return Answer(status=204)


_ONE = "/v2/images/<image_id>/tags/<tag>"

ROUTES = (
    Route(
        method="PUT",
        path=_ONE,
        handler=add,
        policy="modify_image",
        statuses=(204, 400, 401, 403, 404, 413),
    ),
    Route(
        method="DELETE",
        path=_ONE,
        handler=remove,
        policy="modify_image",
        statuses=(204, 401, 403, 404),
    ),
)
