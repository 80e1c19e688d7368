# SPDX-License-Identifier: Apache-2.0
"""Comparison of the scheduler API with the reference search and its advice."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
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
from tests.checker.cloud import DISABLED_TRAIT, Cloud, Provider, draw_random_cloud
from tests.checker.expected_hosts import find_fitting_hosts, find_usable_providers
from tests.checker.requests import CloudRequest, build_request_spec, draw_random_request

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
    """Create a random cloud, compare the responses to random requests, and remove the cloud."""
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
                    compare_rejections_and_advice,
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


def compare_rejections_and_advice(case: RequestInCloud) -> Iterator[ResponseWithTruth]:
    verdicts = case.explain_request(sorted(case.cloud.hosts))["verdicts"]
    rejected = {
        verdict["host"]: [
            HostRejection(verdict["host"], row["stage"], row["name"], row["reason"], row["changes"])
            for row in verdict["reasons"]
        ]
        for verdict in verdicts
        if verdict["reasons"]
    }
    promises = {verdict["host"]: verdict["would_pass"] for verdict in verdicts}
    rejections = [rejection for reasons in rejected.values() for rejection in reasons]
    for rejection in rejections:
        subject = f"{rejection.host}: {rejection.name}: {rejection.reason}"
        yield "reason", subject, _is_rejection_reason_true(case.cloud, rejection)
    for host in case.random.sample(sorted(rejected), min(len(rejected), MAX_ADVISED_HOSTS)):
        yield from _compare_effect_of_first_advice(case, rejected[host], promises[host])
    changes = [(rejection, change) for rejection in rejections for change in rejection.changes]
    for rejection, change in case.random.sample(changes, min(len(changes), MAX_TRIED_CHANGES)):
        yield _compare_effect_of_change(case, rejection, change)


def _is_rejection_reason_true(cloud: Cloud, rejection: HostRejection) -> bool:
    root = cloud.hosts[rejection.host]
    usable = find_usable_providers(cloud, root)
    text = rejection.reason
    every = re.match(r"each of (\d+) providers: ", text)
    if every:
        return int(every[1]) == len(usable) and all(
            _is_provider_rejected(cloud, rejection, provider) for provider in usable
        )
    named = [provider for provider in usable if re.search(rf"\b{provider.name}\b(?!-)", text)]
    return all(_is_provider_rejected(cloud, rejection, provider) for provider in named or [root])


def _is_provider_rejected(cloud: Cloud, rejection: HostRejection, provider: Provider) -> bool:
    kind, name = rejection.constraint
    if kind == "required":
        return (name[1:] in provider.traits) if name[0] == "!" else name not in provider.traits
    if kind == "root_required":
        return DISABLED_TRAIT in provider.traits
    if kind == "member_of":
        named = {uuid for uuid in cloud.aggregates if uuid in rejection.name}
        return bool(provider.aggregates & named) == (name == "!in")
    if kind == "resources" and "none in inventory" in rejection.reason:
        return name not in provider.inventories
    return True


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
        HostRejection(rejection.host, row["stage"], row["name"], "", [])
        for row in verdict["reasons"]
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
            rejection = HostRejection("", stage["stage"], stage["name"], "", [])
            kind, detail = rejection.constraint
            if kind in ("ComputeFilter", "root_required"):
                cloud = _enable_hosts(cloud)
            elif kind == "member_of" and detail == "!in":
                cloud = _remove_required_traits(cloud)
            elif change.get("action") == "ask":
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
