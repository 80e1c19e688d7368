# SPDX-License-Identifier: Apache-2.0
"""The two ways from a request to its query: nova's, in its own interpreter, and ours."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from placement_sched.app import create_app
from tests.conftest import Client, make_settings
from tests.differential.duel import PEER_PYTHON
from tests.differential.exchange import Request
from tests.differential.lines import Lines
from tests.differential.nova.generate.cloud import NODES, SERVER_GROUP, Cloud
from tests.differential.nova.generate.draft import CUSTOM_CLASSES, CUSTOM_TRAITS
from tests.differential.nova.generate.requests import RequestCase
from tests.differential.sides import Peer
from tests.support.scheduling import report
from tests.support.versions import PEER_LATEST, PEER_LATEST_HEADERS

SERVE = Path(__file__).parent / "peer" / "serve.py"
_OWNER = "OWNER_NOVA"


@dataclass(frozen=True)
class Answer:
    """What a side makes of a request.

    ``verdict`` is ``asks``, ``refuses`` (the request cannot be), ``finds nobody`` (without asking)
    or ``fails``. ``told`` is why, where it does not ask; ``unsaid`` is what nova's API says of
    flavor and image before all this, where it would not let them in. ``fallback`` is the second
    query, which asks for pinned CPUs as shared ones.
    """

    verdict: str
    query: str = ""
    told: str = ""
    unsaid: dict[str, Any] = field(default_factory=dict)
    fallback: str = ""


class Theirs:
    """Nova's functions; whether placement would take their query is asked of placement itself."""

    def __init__(self, url: str, python: Path = PEER_PYTHON) -> None:
        self._nova = Lines(python, SERVE)
        self._placement = Peer(url, python)
        for name in CUSTOM_CLASSES:
            self._placement.ask(Request("PUT", f"/resource_classes/{name}", PEER_LATEST))
        for name in CUSTOM_TRAITS:
            self._placement.ask(Request("PUT", f"/traits/{name}", PEER_LATEST))

    def ask(self, asked: RequestCase) -> Answer:
        told = self._nova.ask(asked.as_json())
        unsaid = told["unsaid"] or {}
        if "error" in told:
            kind, message = told["error"]["class"], told["error"]["message"]
            nobody = kind in {"NoValidHost", "RequestFilterFailed"}
            verdict = "finds nobody" if nobody else "refuses"
            return Answer(verdict, told=f"{kind}: {message}", unsaid=unsaid)
        query = told["query"]
        reply = self._placement.ask(Request("GET", f"/allocation_candidates?{query}", PEER_LATEST))
        verdict = "asks" if reply.status == 200 else "refuses"
        return Answer(verdict, query, reply.detail, unsaid, told.get("fallback", ""))

    def close(self) -> None:
        self._nova.close()
        self._placement.close()


class Ours:
    """``/scheduler/v1/explain``, in process."""

    def __init__(self, url: str) -> None:
        settings = make_settings(
            url,
            placement_database__sync_on_startup=True,
            # A server group is refused where nothing heeds its policy.
            filter_scheduler__enabled_filters=["ServerGroupAntiAffinityFilter"],
        )
        self._application = create_app(settings)
        self._client = Client(self._application)
        self._cloud: Cloud | None = None
        self._uuids: dict[str, str] = {}
        self._ids: list[int] = []
        for name in CUSTOM_CLASSES:
            self._client.put(f"/placement/resource_classes/{name}", headers=PEER_LATEST_HEADERS)
        for name in CUSTOM_TRAITS:
            self._client.put(f"/placement/traits/{name}", headers=PEER_LATEST_HEADERS)
        self._client.post_json(
            "/scheduler/v1/compute_nodes", [report(one.node, host=one.host) for one in NODES]
        )
        body = {"server_group": {"name": "g", "policies": ["anti-affinity"]}}
        made = self._client.post_json("/compute/v2.1/os-server-groups", body)
        self._group: str = made.json["server_group"]["id"]

    def ask(self, asked: RequestCase) -> Answer:
        self._load_cloud(asked.cloud)
        body = {"request_spec": asked.request_spec, "overrides": asked.options}
        reply = self._client.post_json(
            "/scheduler/v1/explain", self._translate_uuids(body), expect_errors=True
        )
        if reply.status_int != 200:
            verdict = "refuses" if reply.status_int == 400 else "fails"
            return Answer(verdict, told=reply.json["errors"][0]["detail"])
        funnel = reply.json["funnel"]
        asked_for = funnel["allocation_candidates"]
        query = self._name_uuids(asked_for["query"])
        fallback = self._name_uuids(asked_for.get("fallback", {}).get("query", ""))
        rejections = [one["refusal"] for one in funnel["request_filters"] if "refusal" in one]
        if rejections:
            return Answer("finds nobody", query, rejections[0])
        return Answer("asks", query, f"outcome: {reply.json['outcome']}", fallback=fallback)

    def close(self) -> None:
        self._application.close()

    def _translate_uuids(self, body: dict[str, Any]) -> dict[str, Any]:
        text = json.dumps(body)
        for name, uuid in self._uuids.items():
            text = text.replace(name, uuid)
        return json.loads(text)

    def _name_uuids(self, query: str) -> str:
        for name, uuid in self._uuids.items():
            query = query.replace(uuid, name)
        return query

    def _load_cloud(self, cloud: Cloud) -> None:
        if cloud == self._cloud:
            return
        for number in self._ids:
            self._delete_aggregate(number)
        made = [self._create_aggregate(number, one) for number, one in enumerate(cloud.aggregates)]
        self._ids = [one["id"] for one in made]
        named = zip(cloud.aggregates, made, strict=True)
        self._uuids = {told["uuid"]: one["uuid"] for told, one in named}
        self._uuids[SERVER_GROUP] = self._group
        for one in NODES:
            # One without the trait, and nova may not ask for it of anybody.
            self._set_owner_trait(one.uuid, owned=cloud.owned or one is not NODES[0])
        self._cloud = cloud

    def _delete_aggregate(self, number: int) -> None:
        path = f"{_AGGREGATES}/{number}"
        for host in self._client.get(path).json["aggregate"]["hosts"]:
            self._client.post_json(f"{path}/action", {"remove_host": {"host": host}})
        self._client.delete(path)

    def _create_aggregate(self, number: int, told: dict[str, Any]) -> dict[str, Any]:
        body = {"aggregate": {"name": f"aggregate-{number}"}}
        reply = self._client.post_json(_AGGREGATES, body, headers=_COMPUTE)
        made: dict[str, Any] = reply.json["aggregate"]
        action = f"{_AGGREGATES}/{made['id']}/action"
        if told["metadata"]:
            self._client.post_json(action, {"set_metadata": {"metadata": told["metadata"]}})
        for host in told["hosts"]:
            self._client.post_json(action, {"add_host": {"host": host}})
        return made

    def _set_owner_trait(self, uuid: str, *, owned: bool) -> None:
        path = f"/placement/resource_providers/{uuid}/traits"
        shown = self._client.get(path, headers=PEER_LATEST_HEADERS).json
        traits = sorted({*shown["traits"], _OWNER} if owned else {*shown["traits"]} - {_OWNER})
        generation = shown["resource_provider_generation"]
        body = {"traits": traits, "resource_provider_generation": generation}
        self._client.put_json(path, body, headers=PEER_LATEST_HEADERS)


_AGGREGATES = "/compute/v2.1/os-aggregates"
_COMPUTE = {"X-OpenStack-Nova-API-Version": "2.41"}
