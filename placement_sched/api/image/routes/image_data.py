"""Routes of image data, of which there is none: images are described here, not kept."""

from placement_sched.api.call import Answer, Call
from placement_sched.api.image.viewer import viewer_of
from placement_sched.api.route import Route
from placement_sched.errors import Forbidden, TooMuch
from placement_sched.model.stored_image import DEACTIVATED
from placement_sched.operations import images


def download(call: Call, image_id: str) -> Answer:
    """Return nothing, as for any image without data."""
    viewer = viewer_of(call)
    with call.services.database.read() as connection:
        image = images.get(connection, image_id.lower(), viewer)
    if image.status == DEACTIVATED and not viewer.is_admin:
        raise Forbidden(f"The requested image {image.uuid} has been deactivated.")
    return Answer(status=204)


def upload(call: Call, image_id: str) -> Answer:
    """Take no bytes for the image's data; refuse any."""
    call.services.database.write(
        lambda connection: images.own(connection, image_id.lower(), viewer_of(call))
    )
    if call.body:
        raise TooMuch(
            "No image data is stored here: this service keeps what describes images, for the "
            "scheduler. Create the image without data, or upload it to glance."
        )
    return Answer(status=204)


_FILE = "/v2/images/<image_id>/file"

ROUTES = (
    Route(
        method="GET",
        path=_FILE,
        handler=download,
        policy="download_image",
        statuses=(204, 401, 403, 404),
    ),
    Route(
        method="PUT",
        path=_FILE,
        handler=upload,
        policy="upload_image",
        data=True,
        content_types=("application/octet-stream",),
        statuses=(204, 401, 403, 404, 413, 415),
    ),
)
