"""Lists by page, in order of uuid: at most ``limit`` from behind ``marker`` on."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from placement_sched.api.call import Answer, Call
from placement_sched.model.shape import read, uuid


def limit_and_marker(call: Call) -> tuple[int | None, str | None]:
    """Return how many are asked (None is all) and the uuid they begin behind.

    A marker need not exist any more, so that a page follows even when its last one was deleted.
    """
    limit = call.value("limit")
    marker = call.value("marker")
    return (
        None if limit is None else int(limit),
        None if marker is None else read(uuid, marker, "marker"),
    )


def page(call: Call, noun: str, shown: Sequence[dict[str, Any]]) -> Answer:
    """Return one page of things that have a uuid, with a link to the next if it may be there."""
    limit, _ = limit_and_marker(call)
    links = []
    if limit is not None and len(shown) == limit:
        rest = [pair for pair in call.query if pair[0] != "marker"]
        query = urlencode([*rest, ("marker", shown[-1]["uuid"])])
        links.append({"rel": "next", "href": f"{call.base}/v1/{noun}?{query}"})
    return Answer(body={noun: shown, "links": links})
