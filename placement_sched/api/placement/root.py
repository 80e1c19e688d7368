# SPDX-License-Identifier: Apache-2.0
"""Version document of the Placement API."""

from placement_sched.api.blueprint import Blueprint
from placement_sched.api.call import ApiCall, ApiResponse
from placement_sched.api.placement.microversions import VERSIONING
from placement_sched.api.placement.responses import (
    TEXT,
    links,
    strict_object,
    unique_list,
    with_last_modified,
)
from placement_sched.api.validation import Schemas

blueprint = Blueprint("root", __name__)

_NUMBER = {"type": "string", "pattern": r"^[0-9]+\.[0-9]+$"}
_VERSION = strict_object(
    id=TEXT, min_version=_NUMBER, max_version=_NUMBER, status=TEXT, links=links("self")
)

SHOW_ANSWER = Schemas(strict_object(versions=unique_list(_VERSION)))


@blueprint.get("/", public=True, answer=SHOW_ANSWER)
def show(call: ApiCall) -> ApiResponse:
    """List the supported versions (Placement API reference, "List Versions")."""
    document = {
        "id": "v1.0",
        "max_version": str(VERSIONING.newest),
        "min_version": str(VERSIONING.oldest),
        "status": "CURRENT",
        # A relative link is also correct if a proxy serves this API under another prefix.
        "links": [{"rel": "self", "href": ""}],
    }
    return with_last_modified(call, {"versions": [document]})
