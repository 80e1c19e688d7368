# SPDX-License-Identifier: Apache-2.0
"""Route of allocation candidates: ``GET /allocation_candidates``."""

from collections.abc import Callable, Iterable, Iterator

import orjson

from placement_sched.api import placement
from placement_sched.api.placement import (
    AMOUNTS,
    INTEGER,
    TEXT,
    UUID,
    build_strict_map,
    build_strict_object,
)
from placement_sched.api.placement import microversions as mv
from placement_sched.api.placement.query_params import parse_query
from placement_sched.api.routing import ApiCall, ApiResponse, Blueprint
from placement_sched.api.validation import REPEATED, Schemas
from placement_sched.api.versions import Version
from placement_sched.candidates.search import SummaryFields, find, prepare, render_summaries
from placement_sched.model.candidates_query import AllocationRequest
from placement_sched.model.document import Json
from placement_sched.model.grouping import AT_ONCE, split_batches
from placement_sched.model.names import LIKE_UUID
from placement_sched.model.request_stats import get_request_stats

blueprint = Blueprint("allocation_candidates", __name__)

_TEXTS = {**TEXT, REPEATED: True}
# Clients expect this pattern in the error, including the question mark, which has no effect.
_ANY_SUFFIX = "([a-zA-Z0-9_-]{1,64})?"


def _build_query_schemas() -> Iterator[tuple[Version, Json]]:
    for since, parameters in placement.merge_by_version(
        (mv.ALLOCATION_CANDIDATES, {"resources": TEXT}),
        (mv.LIMIT, {"limit": {"type": "string", "pattern": "^[1-9][0-9]*$", "minLength": 1}}),
        (mv.REQUIRED_ON_CANDIDATES, {"required": TEXT}),
        (mv.MEMBER_OF_ON_CANDIDATES, {"member_of": TEXT}),
        (mv.REPEATED_MEMBER_OF, {"member_of": _TEXTS}),
        (mv.GRANULAR_GROUPS, {"group_policy": {"type": "string", "enum": ["none", "isolate"]}}),
        (mv.IN_TREE_ON_CANDIDATES, {"in_tree": TEXT}),
        (mv.STRING_SUFFIXES, {}),
        (mv.ROOT_REQUIRED, {"root_required": TEXT}),
        (mv.SAME_SUBTREE, {"same_subtree": _TEXTS}),
        (mv.ANY_TRAITS, {"required": _TEXTS}),
    ):
        query = {"type": "object", "properties": parameters, "additionalProperties": False}
        if since.has(mv.GRANULAR_GROUPS):
            suffix = _ANY_SUFFIX if since.has(mv.STRING_SUFFIXES) else "([1-9][0-9]*)"
            names = parameters.keys() & {"resources", "required", "member_of", "in_tree"}
            query["patternProperties"] = {f"^{name}{suffix}$": TEXT for name in sorted(names)}
        else:
            query["required"] = ["resources"]
        yield since, query


GET = Schemas(*_build_query_schemas())

_BY_PROVIDER = build_strict_map(LIKE_UUID, build_strict_object(resources=AMOUNTS))
_REQUEST_1_10 = build_strict_object(
    allocations=placement.build_unique_list(
        build_strict_object(resource_provider=build_strict_object(uuid=UUID), resources=AMOUNTS)
    )
)
_REQUEST_1_12 = build_strict_object(allocations=_BY_PROVIDER)
_REQUEST_1_34 = build_strict_object(
    allocations=_BY_PROVIDER,
    mappings=build_strict_map("^[a-zA-Z0-9_-]{0,64}$", placement.build_unique_list(UUID)),
)
_SUMMARY_1_10 = {
    "resources": build_strict_map(
        placement.NAME, build_strict_object(capacity=INTEGER, used=INTEGER)
    )
}
_SUMMARY_1_17 = {**_SUMMARY_1_10, "traits": placement.build_unique_list(placement.UPPER_CASE)}
_SUMMARY_1_29 = {
    **_SUMMARY_1_17,
    "parent_provider_uuid": placement.UUID_OR_NULL,
    "root_provider_uuid": UUID,
}


def _build_candidates_schema(request: Json, summary: Json) -> Json:
    # Before 1.34 there are no mappings, so that two candidates may have the same allocations.
    requests = {"type": "array", "items": request}
    summaries = build_strict_map(LIKE_UUID, build_strict_object(**summary))
    return build_strict_object(allocation_requests=requests, provider_summaries=summaries)


RESPONSE = Schemas(
    (mv.ALLOCATION_CANDIDATES, _build_candidates_schema(_REQUEST_1_10, _SUMMARY_1_10)),
    (mv.ALLOCATIONS_BY_PROVIDER_UUID, _build_candidates_schema(_REQUEST_1_12, _SUMMARY_1_10)),
    (mv.REQUIRED_ON_CANDIDATES, _build_candidates_schema(_REQUEST_1_12, _SUMMARY_1_17)),
    (mv.NESTED_CANDIDATES, _build_candidates_schema(_REQUEST_1_12, _SUMMARY_1_29)),
    (mv.MAPPINGS, _build_candidates_schema(_REQUEST_1_34, _SUMMARY_1_29)),
)


@blueprint.get(
    "/allocation_candidates",
    policy="placement:allocation_candidates:list",
    since=mv.ALLOCATION_CANDIDATES,
    query=GET,
    errors=(404,),
    response=RESPONSE,
)
def list_candidates(call: ApiCall) -> ApiResponse:
    """List allocation requests and provider summaries (Placement API)."""
    query, services = parse_query(call), call.services
    shows_trees = call.version.has(mv.NESTED_CANDIDATES)
    with services.database.read() as connection:
        source = services.scheduler.caches.choose_provider_source(connection)
        search = prepare(source, query)
        result = find(
            source, search, services.settings, services.random, single_per_tree=not shows_trees
        )
        providers = result.providers
        if shows_trees and search.names.topology.has_nested:
            providers = source.list_tree_providers([provider.id for provider in providers])
        requested = frozenset(name for group in query.groups for name, _ in group.resources)
        fields = SummaryFields(
            classes=None if call.version.has(mv.ALL_CLASSES_IN_SUMMARIES) else requested,
            traits=call.version.has(mv.REQUIRED_ON_CANDIDATES),
            tree=shows_trees,
        )
        summaries = render_summaries(source, providers, fields)
    requests = render(result.requests, call.version)
    body = b"".join(
        (b'{"allocation_requests":', requests, b',"provider_summaries":', *summaries, b"}")
    )
    get_request_stats().candidates = len(result.requests)
    return placement.with_last_modified(call, body)


def render(requests: Iterable[AllocationRequest], version: Version) -> bytes:
    """Render allocation requests as JSON in the format of a microversion."""
    batches = split_batches(_render_each(requests, version), AT_ONCE)
    return b"[%b]" % b",".join([",".join(batch).encode() for batch in batches])


def _render_each(requests: Iterable[AllocationRequest], version: Version) -> Iterator[str]:
    """Yield the JSON of each request, from a template for each layout."""
    templates: dict[int, Callable[..., str]] = {}
    for layout, uuids, root_uuid in requests:
        fill_in = templates.get(id(layout))
        if fill_in is None:
            # The uuid of provider 0 is <0> in the JSON, and {0} in the template. No name contains
            # these characters.
            placeholders = tuple(f"<{index}>" for index in range(len(uuids)))
            document = _as_json(AllocationRequest(layout, placeholders, root_uuid), version)
            text = orjson.dumps(document).decode().replace("{", "{{").replace("}", "}}")
            fill_in = templates[id(layout)] = text.replace("<", "{").replace(">", "}").format
        yield fill_in(*uuids)


def _as_json(request: AllocationRequest, version: Version) -> Json:
    if version.has(mv.MAPPINGS):
        return request.as_json()
    if version.has(mv.ALLOCATIONS_BY_PROVIDER_UUID):
        return {"allocations": request.as_json()["allocations"]}
    return {
        "allocations": [
            {"resource_provider": {"uuid": uuid}, "resources": dict(amounts)}
            for uuid, amounts in request.allocations.items()
        ]
    }
