# SPDX-License-Identifier: Apache-2.0
"""Both sides: nova in another interpreter, and our explain API in this process."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from placement_sched.app import create_app
from tests.conftest import AdminClient, make_settings
from tests.differential.comparison import PEER_PYTHON
from tests.differential.exchange import Request
from tests.differential.lines import SERVE_NOVA_PROGRAM, JsonLineProgram
from tests.differential.nova.generate.cloud import NODES, SERVER_GROUP_UUID, Cloud
from tests.differential.nova.generate.draft import CUSTOM_RESOURCE_CLASSES, CUSTOM_TRAITS
from tests.differential.nova.generate.requests import RequestCase
from tests.differential.sides import OpenStackPlacementPeer
from tests.support.scheduling import make_report
from tests.support.versions import PEER_LATEST, PEER_LATEST_HEADERS

NOVA_QUERIES_MODULE = Path(__file__).parent / "peer" / "queries.py"
_OWNER_TRAIT = "OWNER_NOVA"


@dataclass(frozen=True)
class QueryResult:
    """The result of a side to a request.

    ``verdict`` is ``query``, ``rejected`` (the request is invalid), ``no host`` (before a query) or
    ``failed``, with its ``reason``. ``api_rejection`` is the exception of nova's API for flavor and
    image. ``fallback`` is a second query with shared CPUs in place of pinned CPUs.
    """

    verdict: str
    query: str = ""
    reason: str = ""
    api_rejection: dict[str, Any] = field(default_factory=dict)
    fallback: str = ""


class NovaWithOpenStackPlacement:
    """Nova's functions, and OpenStack's placement, which checks their query."""

    def __init__(self, url: str, python: Path = PEER_PYTHON) -> None:
        self._nova = JsonLineProgram(python, SERVE_NOVA_PROGRAM, NOVA_QUERIES_MODULE)
        self._placement = OpenStackPlacementPeer(url, python)
        for name in CUSTOM_RESOURCE_CLASSES:
            self._placement.send_request(Request("PUT", f"/resource_classes/{name}", PEER_LATEST))
        for name in CUSTOM_TRAITS:
            self._placement.send_request(Request("PUT", f"/traits/{name}", PEER_LATEST))

    def build_query(self, case: RequestCase) -> QueryResult:
        document = self._nova.exchange_json_line(case.as_json())
        rejection = document["api_rejection"] or {}
        if "error" in document:
            kind, message = document["error"]["class"], document["error"]["message"]
            no_host = kind in {"NoValidHost", "RequestFilterFailed"}
            verdict = "no host" if no_host else "rejected"
            return QueryResult(verdict, reason=f"{kind}: {message}", api_rejection=rejection)
        query = document["query"]
        reply = self._placement.send_request(
            Request("GET", f"/allocation_candidates?{query}", PEER_LATEST)
        )
        verdict = "query" if reply.status == 200 else "rejected"
        return QueryResult(verdict, query, reply.detail, rejection, document.get("fallback", ""))

    def close(self) -> None:
        self._nova.close()
        self._placement.close()


class OwnExplainApi:
    """``/scheduler/v1/explain``, in process."""

    def __init__(self, url: str) -> None:
        settings = make_settings(
            url,
            placement_database__sync_on_startup=True,
            # A request with a server group needs a filter for its policy.
            filter_scheduler__enabled_filters=["ServerGroupAntiAffinityFilter"],
        )
        self._application = create_app(settings)
        self._client = AdminClient(self._application)
        self._cloud: Cloud | None = None
        self._uuids: dict[str, str] = {}
        self._ids: list[int] = []
        for name in CUSTOM_RESOURCE_CLASSES:
            self._client.put(f"/placement/resource_classes/{name}", headers=PEER_LATEST_HEADERS)
        for name in CUSTOM_TRAITS:
            self._client.put(f"/placement/traits/{name}", headers=PEER_LATEST_HEADERS)
        self._client.post_json(
            "/scheduler/v1/compute_nodes",
            [make_report(node.node, host=node.host) for node in NODES],
        )
        body = {"server_group": {"name": "g", "policies": ["anti-affinity"]}}
        group = self._client.post_json("/compute/v2.1/os-server-groups", body)
        self._group: str = group.json["server_group"]["id"]

    def build_query(self, case: RequestCase) -> QueryResult:
        self._load_cloud(case.cloud)
        body = {"request_spec": case.request_spec, "overrides": case.options}
        reply = self._client.post_json(
            "/scheduler/v1/explain", self._replace_names_by_uuids(body), expect_errors=True
        )
        if reply.status_int != 200:
            verdict = "rejected" if reply.status_int == 400 else "failed"
            return QueryResult(verdict, reason=reply.json["errors"][0]["detail"])
        funnel = reply.json["funnel"]
        stage = funnel["allocation_candidates"]
        query = self._replace_uuids_by_names(stage["query"])
        fallback = self._replace_uuids_by_names(stage.get("fallback", {}).get("query", ""))
        rejections = [
            item["rejection"] for item in funnel["request_filters"] if "rejection" in item
        ]
        if rejections:
            return QueryResult("no host", query, rejections[0])
        return QueryResult("query", query, f"outcome: {reply.json['outcome']}", fallback=fallback)

    def close(self) -> None:
        self._application.close()

    def _replace_names_by_uuids(self, body: dict[str, Any]) -> dict[str, Any]:
        text = json.dumps(body)
        for name, uuid in self._uuids.items():
            text = text.replace(name, uuid)
        return json.loads(text)

    def _replace_uuids_by_names(self, query: str) -> str:
        for name, uuid in self._uuids.items():
            query = query.replace(uuid, name)
        return query

    def _load_cloud(self, cloud: Cloud) -> None:
        if cloud == self._cloud:
            return
        for number in self._ids:
            self._delete_aggregate(number)
        created = [self._create_aggregate(*item) for item in enumerate(cloud.aggregates)]
        self._ids = [aggregate["id"] for aggregate in created]
        named = zip(cloud.aggregates, created, strict=True)
        self._uuids = {name["uuid"]: aggregate["uuid"] for name, aggregate in named}
        self._uuids[SERVER_GROUP_UUID] = self._group
        for node in NODES:
            # nova requires the trait if all nova-computes are new.
            self._set_owner_trait(node.uuid, owned=cloud.owned)
        self._cloud = cloud

    def _delete_aggregate(self, number: int) -> None:
        path = f"{_AGGREGATES_PATH}/{number}"
        for host in self._client.get(path).json["aggregate"]["hosts"]:
            self._client.post_json(f"{path}/action", {"remove_host": {"host": host}})
        self._client.delete(path)

    def _create_aggregate(self, number: int, aggregate: dict[str, Any]) -> dict[str, Any]:
        body = {"aggregate": {"name": f"aggregate-{number}"}}
        reply = self._client.post_json(_AGGREGATES_PATH, body, headers=_COMPUTE_API_HEADERS)
        created: dict[str, Any] = reply.json["aggregate"]
        action = f"{_AGGREGATES_PATH}/{created['id']}/action"
        if aggregate["metadata"]:
            self._client.post_json(action, {"set_metadata": {"metadata": aggregate["metadata"]}})
        for host in aggregate["hosts"]:
            self._client.post_json(action, {"add_host": {"host": host}})
        return created

    def _set_owner_trait(self, uuid: str, *, owned: bool) -> None:
        path = f"/placement/resource_providers/{uuid}/traits"
        shown = self._client.get(path, headers=PEER_LATEST_HEADERS).json
        traits = sorted(
            {*shown["traits"], _OWNER_TRAIT} if owned else {*shown["traits"]} - {_OWNER_TRAIT}
        )
        generation = shown["resource_provider_generation"]
        body = {"traits": traits, "resource_provider_generation": generation}
        self._client.put_json(path, body, headers=PEER_LATEST_HEADERS)


_AGGREGATES_PATH = "/compute/v2.1/os-aggregates"
_COMPUTE_API_HEADERS = {"X-OpenStack-Nova-API-Version": "2.41"}
