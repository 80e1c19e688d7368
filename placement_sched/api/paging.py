# SPDX-License-Identifier: Apache-2.0
"""Pagination with ``limit`` and ``marker``."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from placement_sched.api.routing import ApiCall, ApiResponse
from placement_sched.limits import MAX_PAGE
from placement_sched.schemas.formats import parse_uuid, read


def parse_page_size(call: ApiCall) -> int:
    """Parse the page size of a compute list, at most :data:`MAX_PAGE`."""
    return min(int(call.find_value("limit") or MAX_PAGE), MAX_PAGE)


def parse_limit_and_marker(call: ApiCall) -> tuple[int | None, str | None]:
    """Parse the page size and the uuid before the page, each None if absent."""
    query = dict(call.query)
    limit = int(query["limit"]) if "limit" in query else None
    return limit, read(parse_uuid, query["marker"], "marker") if "marker" in query else None


def parse_page(query: Mapping[str, str]) -> tuple[int, str | None]:
    """Parse the page size (at most :data:`MAX_PAGE`) and marker of a query."""
    limit = min(int(query.get("limit") or MAX_PAGE), MAX_PAGE)
    return limit, read(parse_uuid, query["marker"], "marker") if "marker" in query else None


def build_next_pairs(call: ApiCall, marker: object) -> list[tuple[str, object]]:
    """Return the query parameters of the page after ``marker``."""
    return [*(pair for pair in call.query if pair[0] != "marker"), ("marker", marker)]


def build_page(call: ApiCall, collection: str, items: Sequence[dict[str, Any]]) -> ApiResponse:
    """Build a page of a scheduler list, with a next link if it is full."""
    limit, _ = parse_limit_and_marker(call)
    marker = items[-1]["uuid"] if items and len(items) == limit else None
    return with_next_link(call, f"/v1/{collection}", {collection: items, "next": marker})


def with_next_link(call: ApiCall, path: str, body: dict[str, Any]) -> ApiResponse:
    """Replace the marker ``next`` (or None) by a link to the next page."""
    links = []
    if (marker := body.pop("next")) is not None:
        query = urlencode(build_next_pairs(call, marker))
        links.append({"rel": "next", "href": f"{call.base}{path}?{query}"})
    return ApiResponse(body={**body, "links": links})


def build_next_links(
    call: ApiCall, path: str, markers: Sequence[object], *, each_counts: bool = False
) -> dict[str, Any]:
    """Build the link to the next page of a compute list if this page is full.

    ``path`` is the path of the list (``servers/detail``), and ``markers`` are the markers of its
    items. Unless ``each_counts``, the link has only the last value of a repeated parameter.
    """
    if not markers or len(markers) < parse_page_size(call):
        return {}
    pairs = build_next_pairs(call, markers[-1])
    query = urlencode(pairs if each_counts else dict(pairs))
    collection = path.partition("/")[0].removeprefix("os-")
    return {f"{collection}_links": [{"rel": "next", "href": f"{call.url}/v2.1/{path}?{query}"}]}
