"""Routes of the schemas that clients read before they speak of images and members."""

from placement_sched.api.call import Answer, Call
from placement_sched.api.image.schemas import image_members, images
from placement_sched.api.route import Route


def image(call: Call) -> Answer:  # noqa: ARG001 - every handler's
    """Return the schema of an image."""
    return Answer(body=images.IMAGE)


def image_list(call: Call) -> Answer:  # noqa: ARG001 - every handler's
    """Return the schema of a list of images."""
    return Answer(body=images.IMAGES)


def member(call: Call) -> Answer:  # noqa: ARG001 - every handler's
    """Return the schema of a member."""
    return Answer(body=image_members.MEMBER)


def member_list(call: Call) -> Answer:  # noqa: ARG001 - every handler's
    """Return the schema of a list of members."""
    return Answer(body=image_members.MEMBERS)


ROUTES = tuple(
    Route(
        method="GET",
        path=f"/v2/schemas/{name}",
        handler=handler,
        policy="get_image",
        statuses=(200, 401, 403),
    )
    for name, handler in (
        ("image", image),
        ("images", image_list),
        ("member", member),
        ("members", member_list),
    )
)
