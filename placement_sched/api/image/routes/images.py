"""Routes of images."""

from typing import Any
from uuid import uuid4

from placement_sched.api.call import Answer, Call
from placement_sched.api.image.documents import image_document
from placement_sched.api.image.listing import limit_of, links_of, question_of
from placement_sched.api.image.patch import CURRENT, DRAFT, changes_from
from placement_sched.api.image.schemas import images as schemas
from placement_sched.api.image.viewer import viewer_of
from placement_sched.api.route import Route
from placement_sched.model.image_change import SETTABLE, check_settable
from placement_sched.model.stored_image import StoredImage
from placement_sched.operations import images
from placement_sched.store.image_search import search


def index(call: Call) -> Answer:
    """Return the images that the query asks for, a page of them."""
    question = question_of(call, viewer_of(call))
    with call.services.database.read() as connection:
        found = search(connection, question)
    page = found[: limit_of(call)]
    last = page[-1].uuid if page and len(found) > len(page) else None
    return Answer(
        body={
            "images": [image_document(image) for image in page],
            **links_of(call, last),
            "schema": "/v2/schemas/images",
        }
    )


def create(call: Call) -> Answer:
    """Create an image; its data, of which there is none, may be sent afterwards."""
    viewer = viewer_of(call)
    image = _image(call.body, call)
    made = call.services.database.write(lambda connection: images.create(connection, image, viewer))
    headers = {"Location": f"{call.url}/v2/images/{made.uuid}"}
    return Answer(status=201, body=image_document(made), headers=headers)


def show(call: Call, image_id: str) -> Answer:
    """Return one image."""
    with call.services.database.read() as connection:
        image = images.get(connection, image_id.lower(), viewer_of(call))
    return Answer(body=image_document(image))


def update(call: Call, image_id: str) -> Answer:
    """Change an image as a JSON patch tells, wholly or not at all."""
    media_type, _, _ = (call.headers.get("Content-Type") or "").partition(";")
    changes = changes_from(call.body, media_type.strip().lower())
    viewer = viewer_of(call)
    image = call.services.database.write(
        lambda connection: images.update(connection, image_id.lower(), viewer, changes, call.now())
    )
    return Answer(body=image_document(image))


def delete(call: Call, image_id: str) -> Answer:
    """Delete an image that is not protected."""
    viewer = viewer_of(call)
    call.services.database.write(
        lambda connection: images.delete(connection, image_id.lower(), viewer)
    )
    return Answer(status=204)


def deactivate(call: Call, image_id: str) -> Answer:
    """Withhold an image's data, where it has any."""
    viewer = viewer_of(call)
    call.services.database.write(
        lambda connection: images.deactivate(connection, image_id.lower(), viewer, call.now())
    )
    return Answer(status=204)


def reactivate(call: Call, image_id: str) -> Answer:
    """Give an image's data out again."""
    viewer = viewer_of(call)
    call.services.database.write(
        lambda connection: images.reactivate(connection, image_id.lower(), viewer, call.now())
    )
    return Answer(status=204)


def _image(body: dict[str, Any], call: Call) -> StoredImage:
    """Return the image that a request describes.

    Raises :class:`Forbidden` for attributes that nobody may set.
    """
    for name in body:
        if name != "id":  # which may be chosen, but not changed
            check_settable(name)
    given = {name: body[name] for name in SETTABLE & body.keys()}
    if "owner" not in given:
        given["owner"] = call.identity.owning_project()
    given["tags"] = frozenset(given.get("tags", ()))
    return StoredImage(
        uuid=body.get("id", str(uuid4())).lower(),
        properties={
            name: value
            for name, value in body.items()
            if name not in SETTABLE and name != "id" and value is not None
        },
        created_at=call.now(),
        updated_at=call.now(),
        **given,
    )


_ALL = "/v2/images"
_ONE = f"{_ALL}/<image_id>"

ROUTES = (
    Route(
        method="GET", path=_ALL, handler=index, policy="get_images", statuses=(200, 400, 401, 403)
    ),
    Route(
        method="POST",
        path=_ALL,
        handler=create,
        policy="add_image",
        body=schemas.CREATE,
        statuses=(201, 400, 401, 403, 409, 413, 415),
        located=(201,),
    ),
    Route(method="GET", path=_ONE, handler=show, policy="get_image", statuses=(200, 401, 403, 404)),
    Route(
        method="PATCH",
        path=_ONE,
        handler=update,
        policy="modify_image",
        body=schemas.UPDATE,
        content_types=(CURRENT, DRAFT),
        statuses=(200, 400, 401, 403, 404, 409, 413, 415),
    ),
    Route(
        method="DELETE",
        path=_ONE,
        handler=delete,
        policy="delete_image",
        statuses=(204, 401, 403, 404),
    ),
    Route(
        method="POST",
        path=f"{_ONE}/actions/deactivate",
        handler=deactivate,
        policy="deactivate",
        statuses=(204, 401, 403, 404),
    ),
    Route(
        method="POST",
        path=f"{_ONE}/actions/reactivate",
        handler=reactivate,
        policy="reactivate",
        statuses=(204, 401, 403, 404),
    ),
)
