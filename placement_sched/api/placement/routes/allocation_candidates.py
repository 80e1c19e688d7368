"""GET /allocation_candidates: who can serve a request."""

from collections.abc import Mapping
from typing import Any

import orjson

from placement_sched.api.call import Answer, Call
from placement_sched.api.placement import microversions as mv
from placement_sched.api.placement.params import (
    normal_uuid,
    parse_member_of,
    parse_resources,
    parse_traits,
)
from placement_sched.api.placement.schemas import allocation_candidates as schemas
from placement_sched.api.route import Route
from placement_sched.candidates.search import Search, find, prepare
from placement_sched.candidates.summaries import Shape
from placement_sched.errors import Invalid
from placement_sched.model.candidate import AllocationRequest
from placement_sched.model.inventory import MAX_INT
from placement_sched.model.query import CandidatesQuery, RequestGroup, TraitTerms

_SERVED = frozenset({"resources", "required", "member_of", "in_tree", "limit", "group_policy"})


def list_candidates(call: Call) -> Answer:
    """Return allocation requests and provider summaries (Placement API reference)."""
    query = _query(call)
    with call.services.database.read() as connection:
        search = prepare(connection, query)
        found = find(connection, search, call.services.settings, call.services.random)
        summaries = call.services.summaries.render(
            connection, found.providers, search.names.class_names, _shape(call, search)
        )
    requests = orjson.dumps([_as_json(call, request) for request in found.requests])
    body = b'{"allocation_requests":%s,"provider_summaries":%s}' % (requests, summaries)
    modified = call.now() if call.version.has(mv.LAST_MODIFIED) else None
    return Answer(body=body, last_modified=modified)


def _query(call: Call) -> CandidatesQuery:
    """Return the question that the query string asks.

    Raises :class:`Invalid` for what is malformed, contradicts itself or is not served.
    """
    _refuse_unserved(call)
    text = call.value("resources")
    if text is None:
        raise Invalid(
            "There must be at least one resources or resources[$S] parameter.",
            code="placement.query.missing_value",
        )
    limit = call.value("limit")
    group = RequestGroup(
        resources=tuple(parse_resources(text).items()),
        traits=_traits(call),
        aggregates=parse_member_of(call.values("member_of"), call.version),
        in_tree=_in_tree(call),
    )
    return CandidatesQuery(
        groups=(group,), limit=None if limit is None else min(int(limit[:12]), MAX_INT)
    )


def _refuse_unserved(call: Call) -> None:
    """Raise :class:`Invalid` for parameters of granular groups, which have yet to be served."""
    unserved = sorted({key for key, _ in call.query} - _SERVED)
    if unserved:
        raise Invalid(
            f"Invalid query string parameters: {', '.join(unserved)}: request groups with a "
            "suffix, root_required and same_subtree are not served by this release"
        )


def _traits(call: Call) -> TraitTerms:
    terms = parse_traits(call.values("required"), call.version)
    plainly = {name for any_of in terms.required if len(any_of) == 1 for name in any_of}
    if both := sorted(plainly & terms.forbidden):
        raise Invalid(
            "Conflicting required and forbidden traits found in the following traits keys: "
            f"required: ({', '.join(both)})"
        )
    return terms


def _in_tree(call: Call) -> str | None:
    text = call.value("in_tree")
    if text is None:
        return None
    try:
        return normal_uuid(text)
    except ValueError:
        raise Invalid(
            "Invalid query string parameters: Expected 'in_tree' parameter to be a format of "
            f"uuid. Got: {text}"
        ) from None


def _shape(call: Call, search: Search) -> Shape:
    """Return what the version shows of each provider: less before 1.17, 1.27 and 1.29."""
    asked = frozenset(search.names.classes[name] for name, _ in search.query.group.resources)
    everything = call.version.has(mv.ALL_CLASSES_IN_SUMMARIES)
    return Shape(
        classes=None if everything else asked,
        traits=call.version.has(mv.REQUIRED_ON_CANDIDATES),
        tree=call.version.has(mv.NESTED_CANDIDATES),
    )


def _as_json(call: Call, request: AllocationRequest) -> Mapping[str, Any]:
    if call.version.has(mv.MAPPINGS):
        return request.as_json()
    if call.version.has(mv.ALLOCATIONS_BY_PROVIDER_UUID):
        return {"allocations": request.as_json()["allocations"]}
    return {
        "allocations": [
            {"resource_provider": {"uuid": uuid}, "resources": dict(amounts)}
            for uuid, amounts in request.allocations.items()
        ]
    }


ROUTES = (
    Route(
        method="GET",
        path="/allocation_candidates",
        handler=list_candidates,
        policy="placement:allocation_candidates:list",
        since=mv.ALLOCATION_CANDIDATES,
        query=schemas.GET,
    ),
)
