# SPDX-License-Identifier: Apache-2.0
"""Expected candidates and summaries from the naive reference search."""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl

from placement_sched.api.auth import ANONYMOUS
from placement_sched.api.placement import microversions as mv
from placement_sched.api.placement.query_params import parse_query
from placement_sched.api.routing import ApiCall
from placement_sched.api.versions import Version
from placement_sched.model.candidates_query import AggregateTerms, CandidatesQuery, RequestGroup
from placement_sched.model.context import NO_REQUEST
from tests.candidates.reference import (
    ExpectedCandidate,
    find_all_candidates,
    find_candidates_by_tree,
)
from tests.conftest import make_settings
from tests.differential.exchange import Request
from tests.support.clouds import Cloud, Host, uuid_of

#: Amounts by provider and class, and providers by group. Versions before 1.34 have no groups.
Candidate = tuple[frozenset[tuple[str, str, int]], frozenset[tuple[str, frozenset[str]]]]
#: Before 1.34, a candidate that serves the groups in two ways appears twice.
Candidates = Counter[Candidate]

#: The default options, which suffice to parse a query.
_DEFAULT_SERVICES = SimpleNamespace(settings=make_settings("sqlite://"))


def parse_candidates_query(request: Request) -> CandidatesQuery:
    pairs = tuple(parse_qsl(request.query, keep_blank_values=True))
    return parse_query(
        ApiCall(
            services=_DEFAULT_SERVICES,
            identity=ANONYMOUS,
            version=_get_version(request),
            query=pairs,
            body=None,
            base="",
            url="",
            ids=NO_REQUEST,
            headers={},
        )
    )


def find_expected_candidates(
    cloud: Cloud, request: Request, query: CandidatesQuery, *, spans: bool = True
) -> Candidates:
    names = {uuid_of(host.name): host.name for host in cloud.hosts}
    mapped = _get_version(request).has(mv.MAPPINGS)
    found = _find_candidates(cloud, request, query, spans=spans)
    return Counter(_convert_uuids_to_names(candidate, names, mapped=mapped) for candidate in found)


def find_candidates_served_by(
    cloud: Cloud,
    request: Request,
    query: CandidatesQuery,
    providers: set[str],
    *,
    spans: bool = True,
) -> Candidates:
    names = {uuid_of(host.name): host.name for host in cloud.hosts}
    mapped = _get_version(request).has(mv.MAPPINGS)
    return Counter(
        _convert_uuids_to_names(candidate, names, mapped=mapped)
        for candidate in _find_candidates(cloud, request, query, spans=spans)
        if {names[uuid] for uuid in dict(candidate.mappings).get("", ())} <= providers
        and "" in dict(candidate.mappings)
    )


def _find_candidates(
    cloud: Cloud, request: Request, query: CandidatesQuery, *, spans: bool
) -> set[ExpectedCandidate]:
    single_per_tree = not _get_version(request).has(mv.NESTED_CANDIDATES)
    groups = tuple(_convert_uuids_of_group(group) for group in query.groups)
    renamed = replace(query, groups=groups, limit=None)
    if spans or renamed.group is None:
        return find_all_candidates(cloud, renamed, single_per_tree=single_per_tree)
    forbidden = renamed.group.aggregates.forbidden
    excluded = {host.uuid for host in cloud.hosts if {*map(uuid_of, host.aggregates)} & forbidden}
    by_root = find_candidates_by_tree(
        cloud, _remove_forbidden_aggregates(renamed), single_per_tree=single_per_tree
    )
    return {
        candidate
        for root, candidates in by_root.items()
        for candidate in candidates
        if excluded.isdisjoint({root, *dict(candidate.mappings)[""]})
    }


def _remove_forbidden_aggregates(query: CandidatesQuery) -> CandidatesQuery:
    groups = tuple(
        group
        if group.suffix
        else replace(group, aggregates=AggregateTerms(group.aggregates.member_of))
        for group in query.groups
    )
    return replace(query, groups=groups)


def parse_candidates(document: Any) -> Candidates:
    return Counter(
        (
            frozenset(_list_amounts(item["allocations"])),
            frozenset(
                (suffix, frozenset(uuids)) for suffix, uuids in item.get("mappings", {}).items()
            ),
        )
        for item in document["allocation_requests"]
    )


def build_expected_summaries(
    cloud: Cloud,
    request: Request,
    query: CandidatesQuery,
    candidates: Collection[Candidate],
    *,
    mapped: bool,
) -> dict[str, Any]:
    version = _get_version(request)
    serving = {uuid for amounts, _ in candidates for uuid, _, _ in amounts}
    if mapped:
        serving |= {uuid for _, groups in candidates for _, uuids in groups for uuid in uuids}
    if version.has(mv.NESTED_CANDIDATES):
        roots = {cloud.root(cloud[uuid]).name for uuid in serving}
        serving = {host.name for host in cloud.hosts if cloud.root(host).name in roots}
    classes = {name for group in query.groups for name, _ in group.resources}
    return {uuid: _build_expected_summary(cloud, cloud[uuid], classes, version) for uuid in serving}


def _build_expected_summary(
    cloud: Cloud, host: Host, classes: set[str], version: Version
) -> dict[str, Any]:
    every = version.has(mv.ALL_CLASSES_IN_SUMMARIES)
    summary: dict[str, Any] = {
        "resources": {
            name: {"capacity": held.capacity, "used": held.used}
            for name, held in host.inventories.items()
            if every or name in classes
        }
    }
    if version.has(mv.REQUIRED_ON_CANDIDATES):
        summary["traits"] = sorted(host.traits)
    if version.has(mv.NESTED_CANDIDATES):
        summary["parent_provider_uuid"] = host.parent
        summary["root_provider_uuid"] = cloud.root(host).name
    return summary


def _get_version(request: Request) -> Version:
    return Version(1, request.minor_version)


def _convert_uuids_of_group(group: RequestGroup) -> RequestGroup:
    terms = group.aggregates
    aggregates = type(terms)(
        tuple(frozenset(map(uuid_of, any_of)) for any_of in terms.member_of),
        frozenset(map(uuid_of, terms.forbidden)),
    )
    return replace(group, aggregates=aggregates, in_tree=group.in_tree and uuid_of(group.in_tree))


def _convert_uuids_to_names(
    found: ExpectedCandidate, names: dict[str, str], *, mapped: bool
) -> Candidate:
    mappings = found.mappings if mapped else frozenset()
    return (
        frozenset((names[uuid], name, amount) for uuid, name, amount in found.allocations),
        frozenset((suffix, frozenset(names[uuid] for uuid in uuids)) for suffix, uuids in mappings),
    )


def _list_amounts(allocations: Any) -> Iterator[tuple[str, str, int]]:
    if isinstance(allocations, list):
        pairs = [(item["resource_provider"]["uuid"], item["resources"]) for item in allocations]
    else:
        pairs = [(uuid, item["resources"]) for uuid, item in allocations.items()]
    for uuid, amounts in pairs:
        for name, amount in amounts.items():
            yield uuid, name, amount
