"""The OpenAPI document of the Placement API, made from its route table."""

from placement_sched.api import openapi
from placement_sched.api.call import Answer, Call
from placement_sched.api.placement.microversions import LAST_MODIFIED, VERSIONING
from placement_sched.api.placement.schemas import openapi as schemas
from placement_sched.api.placement.schemas.errors import ERRORS
from placement_sched.api.placement.schemas.parts import UPPER_CASE, UUID
from placement_sched.api.placement.table import NOUNS
from placement_sched.api.route import Route


def show(call: Call) -> Answer:
    """Return the OpenAPI document of the microversion asked for, without one of the newest."""
    version = VERSIONING.negotiate(call.headers, legacy="latest")
    return Answer(body=openapi.document(FACE, version, call.base or "/"))


ROUTES = (
    Route(
        method="GET",
        path="/openapi.json",
        handler=show,
        public=True,
        statuses=(200, 400, 406),
        dated=(),
        answer=schemas.SHOW_ANSWER,
    ),
)

#: What the document describes: every noun's routes, and its own.
FACE = openapi.Face(
    title="Placement API",
    service=VERSIONING.service,
    routes=(*NOUNS, *ROUTES),
    names={"uuid": UUID, "consumer_uuid": UUID, "resource_class": UPPER_CASE, "name": UPPER_CASE},
    errors=ERRORS,
    dated_since=LAST_MODIFIED,
)
