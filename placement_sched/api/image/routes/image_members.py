"""Routes of image members: the projects with whom images are shared."""

from placement_sched.api.call import Answer, Call
from placement_sched.api.image.documents import member_document
from placement_sched.api.image.schemas import image_members as schemas
from placement_sched.api.image.viewer import viewer_of
from placement_sched.api.route import Route
from placement_sched.operations import image_members


def index(call: Call, image_id: str) -> Answer:
    """Return the members of an image."""
    with call.services.database.read() as connection:
        found = image_members.of_image(connection, image_id.lower(), viewer_of(call))
    members = [member_document(member) for member in found]
    return Answer(body={"members": members, "schema": "/v2/schemas/members"})


def create(call: Call, image_id: str) -> Answer:
    """Share an image with a project, which may accept it."""
    viewer = viewer_of(call)
    member = call.services.database.write(
        lambda connection: image_members.add(
            connection, image_id.lower(), viewer, call.body["member"], call.now()
        )
    )
    return Answer(body=member_document(member))


def show(call: Call, image_id: str, member_id: str) -> Answer:
    """Return one member of an image."""
    with call.services.database.read() as connection:
        member = image_members.get(connection, image_id.lower(), viewer_of(call), member_id)
    return Answer(body=member_document(member))


def update(call: Call, image_id: str, member_id: str) -> Answer:
    """Accept an image that is shared, reject it, or be undecided again."""
    viewer = viewer_of(call)
    member = call.services.database.write(
        lambda connection: image_members.set_status(
            connection, image_id.lower(), viewer, member_id, call.body["status"], call.now()
        )
    )
    return Answer(body=member_document(member))


def delete(call: Call, image_id: str, member_id: str) -> Answer:
    """Share an image with a project no more."""
    viewer = viewer_of(call)
    call.services.database.write(
        lambda connection: image_members.remove(connection, image_id.lower(), viewer, member_id)
    )
    return Answer(status=204)


_ALL = "/v2/images/<image_id>/members"
_ONE = f"{_ALL}/<member_id>"

ROUTES = (
    Route(
        method="GET", path=_ALL, handler=index, policy="get_members", statuses=(200, 401, 403, 404)
    ),
    Route(
        method="POST",
        path=_ALL,
        handler=create,
        policy="add_member",
        body=schemas.CREATE,
        statuses=(200, 400, 401, 403, 404, 409, 413, 415),
    ),
    Route(
        method="GET", path=_ONE, handler=show, policy="get_member", statuses=(200, 401, 403, 404)
    ),
    Route(
        method="PUT",
        path=_ONE,
        handler=update,
        policy="modify_member",
        body=schemas.UPDATE,
        statuses=(200, 400, 401, 403, 404, 413, 415),
    ),
    Route(
        method="DELETE",
        path=_ONE,
        handler=delete,
        policy="delete_member",
        statuses=(204, 401, 403, 404),
    ),
)
