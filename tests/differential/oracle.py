"""What the naive reference search answers, where the two services disagree about candidates."""

from typing import Any
from urllib.parse import parse_qsl

from placement_sched.api.auth import ANONYMOUS
from placement_sched.api.call import Call
from placement_sched.api.microversion import Version
from placement_sched.api.placement.granular import query_of
from placement_sched.api.placement.microversions import NESTED_CANDIDATES
from placement_sched.model.inventory import Inventory
from placement_sched.model.query import CandidatesQuery, RequestGroup
from tests.candidates.reference import Found, all_candidates
from tests.clouds import Cloud, Host, Stock, uuid_of
from tests.differential.exchange import Request
from tests.differential.sides import Side
from tests.differential.state import get

#: What each class is asked of each provider, and who serves which group (none before 1.34).
Candidate = tuple[frozenset[tuple[str, str, int]], frozenset[tuple[str, frozenset[str]]]]


def judged(side: Side, request: Request) -> set[Candidate]:
    """Return the candidates for a request in the cloud that a side shows."""
    cloud = _cloud(side)
    names = {uuid_of(host.name): host.name for host in cloud.hosts}
    version = Version(1, request.minor)
    query = _query(request, version)
    found = all_candidates(cloud, query, one_of_a_tree=not version.has(NESTED_CANDIDATES))
    return {_named(one, names, mapped=request.minor >= 34) for one in found}


def told(document: Any) -> set[Candidate]:
    """Return the candidates that an answer tells."""
    return {
        (
            frozenset(_amounts(one["allocations"])),
            frozenset((suffix, frozenset(uuids)) for suffix, uuids in _mappings(one).items()),
        )
        for one in document["allocation_requests"]
    }


def asked(request: Request) -> CandidatesQuery:
    """Return the question that a request asks."""
    pairs = tuple(parse_qsl(request.query, keep_blank_values=True))
    return query_of(
        Call(
            services=None,
            identity=ANONYMOUS,
            version=Version(1, request.minor),
            query=pairs,
            body=None,
            base="",
            url="",
            request_id="",
            headers={},
        )
    )


def _query(request: Request, version: Version) -> CandidatesQuery:
    """Return the question with the uuids under which the cloud below has its things."""
    query = asked(request)
    return CandidatesQuery(
        groups=tuple(_renamed(group) for group in query.groups),
        group_policy=query.group_policy,
        root=query.root,
        same_subtrees=query.same_subtrees,
    )


def _renamed(group: RequestGroup) -> RequestGroup:
    terms = group.aggregates
    return RequestGroup(
        suffix=group.suffix,
        resources=group.resources,
        traits=group.traits,
        aggregates=type(terms)(
            tuple(frozenset(map(uuid_of, any_of)) for any_of in terms.member_of),
            frozenset(map(uuid_of, terms.forbidden)),
        ),
        in_tree=group.in_tree and uuid_of(group.in_tree),
    )


def _cloud(side: Side) -> Cloud:
    """Return what a side shows as a cloud whose names are the uuids shown."""
    listed = get(side, "/resource_providers").document["resource_providers"]
    return Cloud(tuple(_host(side, one["uuid"], one["parent_provider_uuid"]) for one in listed))


def _host(side: Side, uuid: str, parent: str | None) -> Host:
    path = f"/resource_providers/{uuid}"
    stock = get(side, f"{path}/inventories").document["inventories"]
    used = get(side, f"{path}/usages").document["usages"]
    return Host(
        name=uuid,
        stocks={
            name: Stock(Inventory(resource_class=name, **one), used[name])
            for name, one in stock.items()
        },
        traits=frozenset(get(side, f"{path}/traits").document["traits"]),
        aggregates=frozenset(get(side, f"{path}/aggregates").document["aggregates"]),
        parent=parent,
    )


def _named(found: Found, names: dict[str, str], *, mapped: bool) -> Candidate:
    mappings = found.mappings if mapped else frozenset()
    return (
        frozenset((names[uuid], name, amount) for uuid, name, amount in found.allocations),
        frozenset((suffix, frozenset(names[one] for one in uuids)) for suffix, uuids in mappings),
    )


def _amounts(allocations: Any) -> Any:
    if isinstance(allocations, list):
        pairs = [(one["resource_provider"]["uuid"], one["resources"]) for one in allocations]
    else:
        pairs = [(uuid, one["resources"]) for uuid, one in allocations.items()]
    for uuid, amounts in pairs:
        for name, amount in amounts.items():
            yield uuid, name, amount


def _mappings(one: Any) -> Any:
    return one.get("mappings", {})
