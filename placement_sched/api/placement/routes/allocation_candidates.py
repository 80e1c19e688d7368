"""GET /allocation_candidates: who can serve a request."""

from placement_sched.api.call import Answer, Call
from placement_sched.api.placement import microversions as mv
from placement_sched.api.placement.allocation_requests import render
from placement_sched.api.placement.granular import query_of
from placement_sched.api.placement.schemas import allocation_candidates as schemas
from placement_sched.api.route import Route
from placement_sched.candidates.narrow import whole_trees
from placement_sched.candidates.search import Search, find, prepare
from placement_sched.candidates.summaries import Shape


def list_candidates(call: Call) -> Answer:
    """Return allocation requests and provider summaries (Placement API reference)."""
    services, query = call.services, query_of(call)
    sees_trees = call.version.has(mv.NESTED_CANDIDATES)
    with services.database.read() as connection:
        search = prepare(connection, query)
        found = find(
            connection, search, services.settings, services.random, one_of_a_tree=not sees_trees
        )
        shown = found.providers
        if sees_trees and search.topology.nested:
            shown = whole_trees(connection, shown) if found.trees is None else found.trees
        summaries = services.summaries.render(
            connection, shown, search.names.class_names, _shape(call, search), found.usages
        )
    services.database.tally.candidates = len(found.requests)
    requests = render(found.requests, call.version)
    body = b"".join(
        (b'{"allocation_requests":', requests, b',"provider_summaries":', *summaries, b"}")
    )
    modified = call.now() if call.version.has(mv.LAST_MODIFIED) else None
    return Answer(body=body, last_modified=modified)


def _shape(call: Call, search: Search) -> Shape:
    """Return what the version shows of each provider: less before 1.17, 1.27 and 1.29."""
    asked = frozenset(
        search.names.classes[name] for group in search.query.groups for name, _ in group.resources
    )
    everything = call.version.has(mv.ALL_CLASSES_IN_SUMMARIES)
    return Shape(
        classes=None if everything else asked,
        traits=call.version.has(mv.REQUIRED_ON_CANDIDATES),
        tree=call.version.has(mv.NESTED_CANDIDATES),
    )


ROUTES = (
    Route(
        method="GET",
        path="/allocation_candidates",
        handler=list_candidates,
        policy="placement:allocation_candidates:list",
        since=mv.ALLOCATION_CANDIDATES,
        query=schemas.GET,
        statuses=(200, 400, 401, 403, 404, 406),
        answer=schemas.ANSWER,
    ),
)
