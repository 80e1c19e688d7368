# SPDX-License-Identifier: Apache-2.0
"""Comparison of the scheduler API with the reference search and its advice."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from random import Random
from typing import Any
from uuid import UUID

from tests.checker.advice import (
    HostRejection,
    build_changed_request,
    carry_out_advice,
    drop_constraint,
)
from tests.checker.api import Api, UnexpectedStatusError
from tests.checker.cloud import DISABLED_TRAIT, Cloud, draw_random_cloud
from tests.checker.expected_hosts import find_fitting_hosts
from tests.checker.expected_rejections import (
    FILTER_OVERRIDES,
    ExpectedRejection,
    HostSearch,
    has_values,
    list_filter_rejections,
)
from tests.checker.requests import CloudRequest, build_request_spec, draw_random_request
from tests.support.rejection_kinds import find_undocumented_values

#: Number of requests per cloud.
REQUESTS_PER_CLOUD = 3
#: Maximum number of hosts per request whose advice is carried out.
MAX_ADVISED_HOSTS = 3
#: Maximum number of changes per request that are carried out alone.
MAX_TRIED_CHANGES = 8
#: Maximum number of instances that are placed to count a capacity.
MAX_PLACED_INSTANCES = 60

#: The kind and the text of a response, and whether the response is true.
ResponseWithTruth = tuple[str, str, bool]


@dataclass(frozen=True)
class ComparedResponse:
    """A response, and whether it is true."""

    kind: str
    layout: str
    seed: int
    subject: str
    is_true: bool

    def __str__(self) -> str:
        verdict = "true" if self.is_true else "FALSE"
        return f"{verdict} {self.kind}, {self.layout} cloud of seed {self.seed}: {self.subject}"


@dataclass(frozen=True)
class RequestInCloud:
    """A request in a cloud."""

    api: Api
    cloud: Cloud
    request: CloudRequest
    random: Random

    def explain_request(
        self, hosts: list[str] | None = None, request: CloudRequest | None = None
    ) -> Any:
        body: dict[str, Any] = {"request_spec": build_request_spec(request or self.request)}
        body |= {"hosts": hosts} if hosts else {}
        return self.api.send_json("POST", "/scheduler/v1/explain", body)

    def restore_cloud(self) -> None:
        self.api.restore_cloud(self.api.read_cloud(frozenset(self.cloud.allocations)), self.cloud)


def compare_responses(
    api: Api, seed: int, layout: str, requests: int = REQUESTS_PER_CLOUD
) -> list[ComparedResponse]:
    """Compare the responses to random requests in a new random cloud."""
    random_cloud = draw_random_cloud(Random(f"{seed} {layout}"), layout)
    consumers = frozenset(random_cloud.allocations)
    api.create_cloud(random_cloud)
    try:
        cloud = api.read_cloud(consumers)
        comparisons = []
        for number in range(requests):
            random = Random(f"{seed} {layout} {number}")
            case = RequestInCloud(api, cloud, draw_random_request(random, layout), random)
            comparisons += [
                ComparedResponse(kind, layout, seed, f"{subject}; {case.request}", is_true)
                for part in (
                    compare_verdicts_and_selections,
                    compare_advice,
                    compare_values_of_rejections,
                    compare_would_fit_suggestions,
                )
                for kind, subject, is_true in part(case)
            ]
        return comparisons
    finally:
        api.remove_cloud(consumers)


def compare_verdicts_and_selections(case: RequestInCloud) -> Iterator[ResponseWithTruth]:
    expected = find_fitting_hosts(case.cloud, case.request)
    for verdict in case.explain_request(sorted(case.cloud.hosts))["verdicts"]:
        is_true = (verdict["verdict"] == "passed") == (verdict["host"] in expected)
        yield "verdict", f"{verdict['host']} {verdict['verdict']}", is_true
    spec = build_request_spec(case.request)
    response = case.api.send_json("POST", "/scheduler/v1/capacity", {"request_spec": spec})
    hosts = _place_instances_until_full(case, spec)
    yield "selection", str(hosts[:1]), {*hosts[:1]} <= expected and bool(hosts) == bool(expected)
    count = response["capacity"]
    is_true = count == len(hosts) if response["exact"] else count <= len(hosts)
    yield "capacity", f"{count} more fit, {len(hosts)} were placed", is_true


def _place_instances_until_full(case: RequestInCloud, spec: dict[str, Any]) -> list[str]:
    hosts: list[str] = []
    uuids = [str(UUID(int=number, version=4)) for number in range(1, MAX_PLACED_INSTANCES)]
    try:
        for uuid in uuids:
            body = {"request_spec": {**spec, "instance_uuids": [uuid]}}
            response = case.api.send_json("POST", "/scheduler/v1/select_destinations", body)
            hosts.append(response["selections"][0][0]["service_host"])
    except UnexpectedStatusError as error:
        if error.status != 409:
            raise
    finally:
        for uuid in uuids[: len(hosts)]:
            case.api.send_json("DELETE", f"/scheduler/v1/instances/{uuid}")
    return hosts


def compare_advice(case: RequestInCloud) -> Iterator[ResponseWithTruth]:
    verdicts = case.explain_request(sorted(case.cloud.hosts))["verdicts"]
    rejected = {
        verdict["host"]: [
            HostRejection(verdict["host"], row["stage"], row["name"], row["changes"])
            for row in verdict["reasons"]
        ]
        for verdict in verdicts
        if verdict["reasons"]
    }
    promises = {verdict["host"]: verdict["would_pass"] for verdict in verdicts}
    rejections = [rejection for reasons in rejected.values() for rejection in reasons]
    for host in case.random.sample(sorted(rejected), min(len(rejected), MAX_ADVISED_HOSTS)):
        yield from _compare_effect_of_first_advice(case, rejected[host], promises[host])
    changes = [(rejection, change) for rejection in rejections for change in rejection.changes]
    for rejection, change in case.random.sample(changes, min(len(changes), MAX_TRIED_CHANGES)):
        yield _compare_effect_of_change(case, rejection, change)


def compare_values_of_rejections(case: RequestInCloud) -> Iterator[ResponseWithTruth]:
    """Compare kinds and values of rejections with the reference.

    A verdict has all stages that reject a host, the funnel only the first.
    """
    spec = build_request_spec(case.request)
    body = {"request_spec": spec, "hosts": sorted(case.cloud.hosts), "overrides": FILTER_OVERRIDES}
    response = case.api.send_json("POST", "/scheduler/v1/explain", body)
    for verdict in response["verdicts"]:
        host = verdict["host"]
        of_search = HostSearch(case.cloud, case.request, case.cloud.hosts[host], is_relaxed=True)
        expected = [
            *of_search.list_rejections(),
            *list_filter_rejections(case.cloud, case.request, host),
        ]
        yield from _compare_values(host, verdict["reasons"], expected)
    entries_by_host: dict[str, list[Any]] = {host: [] for host in case.cloud.hosts}
    funnel = response["funnel"]
    for step in funnel["allocation_candidates"]["steps"]:
        name = f"{step['constraint']} {step['detail']}".strip()
        for entry in step["rejected"]:
            entries_by_host[entry["host"]].append({"name": name, **entry})
    for report in funnel["filters"]:
        for entry in report["rejected"]:
            entries_by_host[entry["host"]].append({"name": report["name"], **entry})
    for host, entries in entries_by_host.items():
        of_search = HostSearch(case.cloud, case.request, case.cloud.hosts[host], is_relaxed=False)
        of_filters = list_filter_rejections(case.cloud, case.request, host)
        yield from _compare_values(host, entries, of_search.list_rejections() or of_filters[:1])


def _compare_values(
    host: str, entries: list[Any], expected: list[ExpectedRejection]
) -> Iterator[ResponseWithTruth]:
    for entry, rejection in zip_longest(entries, expected):
        is_true = (
            entry is not None
            and rejection is not None
            and entry["name"] == rejection.name
            and has_values(entry, rejection.values)
            and not find_undocumented_values(_select_value_keys(entry))
        )
        yield "value", f"{host}: {entry}; expected {rejection}", is_true


def _select_value_keys(entry: Any) -> Any:
    return {key: value for key, value in entry.items() if key not in ("stage", "name", "changes")}


def _compare_effect_of_first_advice(
    case: RequestInCloud, rejections: list[HostRejection], would_pass: bool | None
) -> Iterator[ResponseWithTruth]:
    if would_pass is None:
        return
    host = rejections[0].host
    firsts = {repr(entry.changes[0]): entry for entry in rejections if entry.changes}
    subject = f"{host}: {'; '.join(entry.changes[0]['words'] for entry in firsts.values())}"
    request, cloud = case.request, case.cloud
    try:
        for rejection in firsts.values():
            request = carry_out_advice(case.api, cloud, request, rejection, rejection.changes[0])
            cloud = case.api.read_cloud(frozenset(cloud.allocations))
        passes = case.explain_request([host], request)["verdicts"][0]["verdict"] == "passed"
        yield "advice", f"{subject}; promised {would_pass}", passes == would_pass
    except UnexpectedStatusError as error:
        yield "advice", f"{subject}; rejected: {error}", False
    finally:
        case.restore_cloud()


def _compare_effect_of_change(
    case: RequestInCloud, rejection: HostRejection, change: dict[str, Any]
) -> ResponseWithTruth:
    subject = f"{rejection.host}: {rejection.name}: {change['words']}"
    try:
        request = carry_out_advice(case.api, case.cloud, case.request, rejection, change)
        verdict = case.explain_request([rejection.host], request)["verdicts"][0]
    except UnexpectedStatusError as error:
        return "change", f"{subject}; rejected: {error}", False
    finally:
        case.restore_cloud()
    remaining = [
        HostRejection(rejection.host, row["stage"], row["name"], []) for row in verdict["reasons"]
    ]
    stages = {(entry.stage, entry.constraint, entry.group_suffix) for entry in remaining}
    stage = (rejection.stage, rejection.constraint, rejection.group_suffix)
    return "change", subject, stage not in stages


def compare_would_fit_suggestions(case: RequestInCloud) -> Iterator[ResponseWithTruth]:
    funnel = case.explain_request()["funnel"]
    for entry in funnel.get("would_fit", []):
        request, cloud = case.request, case.cloud
        change = entry["change"] or {}
        for stage in entry["without"]:
            rejection = HostRejection("", stage["stage"], stage["name"], [])
            kind, detail = rejection.constraint
            if kind in ("ComputeFilter", "root_required"):
                cloud = _enable_hosts(cloud)
            elif kind == "member_of" and detail == "!in":
                cloud = _remove_required_traits(cloud)
            elif change.get("action") == "change_request":
                request = build_changed_request(request, rejection.group_suffix, change)
            else:
                request = drop_constraint(request, rejection.group_suffix, kind, rejection.detail)
        fitting = find_fitting_hosts(cloud, request)
        is_true = {*entry["examples"]} <= fitting and len(fitting) == entry["hosts"]
        yield "suggestion", entry["words"], is_true


def _enable_hosts(cloud: Cloud) -> Cloud:
    providers = {
        uuid: replace(provider, traits=provider.traits - {DISABLED_TRAIT})
        for uuid, provider in cloud.providers.items()
    }
    return replace(cloud, providers=providers, disabled=frozenset())


def _remove_required_traits(cloud: Cloud) -> Cloud:
    aggregates = {
        uuid: replace(aggregate, required=frozenset())
        for uuid, aggregate in cloud.aggregates.items()
    }
    return replace(cloud, aggregates=aggregates)
