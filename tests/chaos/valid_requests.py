# SPDX-License-Identifier: Apache-2.0
"""Valid requests for every endpoint, with existing names and current generations.

Most bodies of writes are in ``writes.py``, query strings in ``queries.py``.
"""

import json
import random
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode
from uuid import UUID

from placement_sched.api.routing import PARAMETER
from tests.chaos.endpoints import Endpoint
from tests.chaos.queries import OPTIONAL_PARAMETERS, REQUIRED_PARAMETERS
from tests.chaos.writes import (
    AGGREGATES,
    CUSTOM_CLASSES,
    HOSTS,
    PATH_PARAMETERS,
    PROVIDER_UUIDS,
    PROVIDER_VCPUS,
    TRAITS,
    WriteRequestDrawer,
)
from tests.support.clouds import uuid_of
from tests.support.identity import PASSWORD, USER
from tests.support.scheduling import make_report, make_spec

#: Sends method, path, body and version, and returns the document of the response.
JsonRequestSender = Callable[[str, str, Any, str], Any]
#: The user agent of drawn requests. Requests that a page sends have another.
DRAWN_USER_AGENT = "grammar"
#: Headers of a caller that may do everything.
ADMIN_SERVICE_HEADERS = {"X-Auth-Token": "admin", "X-Roles": "admin,service"}
FORM_CONTENT_TYPE = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class DrawnRequest:
    """A request and its endpoint."""

    endpoint: Endpoint
    method: str
    path: str
    query: Sequence[tuple[str, str]]
    headers: Mapping[str, str]
    body: bytes | None

    @property
    def url(self) -> str:
        """The path with the query string."""
        query = urlencode(self.query, errors="replace")
        return f"{self.path}?{query}" if query else self.path


#: Values of the login form.
_LOGIN_FORM = {"user": USER, "password": PASSWORD, "project": "p1", "next": "/console/ask"}
#: Paths that the console passes on to the APIs.
_PROXIED_API_PATHS = {
    "GET": ["scheduler/v1/hosts", "scheduler/v1/decisions", "placement/resource_providers"],
    "POST": ["scheduler/v1/explain", "scheduler/v1/capacity", "scheduler/v1/plan"],
}
#: Values of path parameters that ``writes.py`` does not have.
_OTHER_PATH_PARAMETERS: Mapping[str, Sequence[str]] = {
    "host": HOSTS,
    "filename": ["report.css", "ask.js", "icon.svg"],
    "below": ["users/u1", "projects"],
    "rest": ["nowhere", "hosts"],
}
#: Lists of existing objects by path parameter: path, key, and field with the name.
_EXISTING_OBJECT_LISTS: Mapping[str, tuple[str, str, str]] = {
    "flavor_id": ("/compute/v2.1/flavors?is_public=None", "flavors", "id"),
    "image_id": ("/image/v2/images?os_hidden=false", "images", "id"),
    "hypervisor_id": ("/compute/v2.1/os-hypervisors", "hypervisors", "id"),
    "server_id": ("/scheduler/v1/instances", "instances", "uuid"),
    "decision": ("/scheduler/v1/decisions?limit=5", "decisions", "uuid"),
}
_PLAN_GOALS = ("pack", "spread", "comply")
#: States of unfinished moves.
_UNFINISHED_MOVE_STATES = ("planned", "started", "failed")
#: Names of objects without references, so that requests can delete them.
SPARE_HOST = "cn5"
#: The flavor of some projects only.
PRIVATE_FLAVOR = "f1"
SPARE_OBJECT_NAMES = {
    "resource_class": ["CUSTOM_D", "CUSTOM_E"],
    "flavor_id": ["f4", "f5", "f1"],
    "image_id": ["66666666-0000-4000-8000-000000000008", "66666666-0000-4000-8000-000000000009"],
}
_AGGREGATES_PATH, _IMAGES_PATH = "/compute/v2.1/os-aggregates", "/image/v2/images"
_FLAVOR_PATH = "/compute/v2.1/flavors/<flavor_id>"
_AGGREGATE_PATH = f"{_AGGREGATES_PATH}/<aggregate_id>"
_PROVIDERS_PATH, _CLASSES_PATH = ("/placement/resource_providers", "/placement/resource_classes")
#: For an endpoint, another endpoint whose requests create the objects it needs.
PREREQUISITE_ENDPOINTS = {
    f"DELETE {_AGGREGATE_PATH}": f"POST {_AGGREGATES_PATH}",
    f"POST {_AGGREGATE_PATH}/action remove_host": (f"POST {_AGGREGATE_PATH}/action add_host"),
    f"PUT {_IMAGES_PATH}/<image_id>/file": f"POST {_IMAGES_PATH}",
    f"DELETE {_IMAGES_PATH}/<image_id>/tags/<tag>": f"PUT {_IMAGES_PATH}/<image_id>/tags/<tag>",
    f"DELETE {_CLASSES_PATH}/<name>": f"POST {_CLASSES_PATH}",
    f"POST {_PROVIDERS_PATH}": f"DELETE {_PROVIDERS_PATH}/<uuid>",
    f"POST {_PROVIDERS_PATH}/<uuid>/inventories": f"DELETE {_PROVIDERS_PATH}/<uuid>/inventories",
    f"DELETE {_PROVIDERS_PATH}/<uuid>/inventories": "DELETE /placement/allocations/<consumer_uuid>",
    "DELETE /placement/allocations/<consumer_uuid>": "PUT /placement/allocations/<consumer_uuid>",
    f"POST {_FLAVOR_PATH}/action addTenantAccess": "POST /compute/v2.1/flavors",
    f"POST {_FLAVOR_PATH}/action removeTenantAccess": f"POST {_FLAVOR_PATH}/action addTenantAccess",
    "DELETE /compute/v2.1/os-services/<service_id>": "POST /scheduler/v1/compute_nodes",
    "DELETE /scheduler/v1/instances/<uuid>": "PUT /scheduler/v1/instances/<uuid>",
    "PUT /scheduler/v1/plan_runs/<uuid>": "POST /scheduler/v1/plan_runs",
    "PUT /scheduler/v1/plan_runs/<uuid>/moves/<instance>": "POST /scheduler/v1/plan_runs",
}
#: Valid values of extra specs in the newest versions.
_EXTRA_SPECS = {"hw:cpu_policy": "shared", "trait:CUSTOM_RED": "required"}


_NEW_IMAGE = {"name": "i", "disk_format": "raw", "container_format": "bare", "visibility": "shared"}


def _build_flavor(name: str) -> dict[str, object]:
    sizes = {"vcpus": 1, "ram": 64, "disk": 1}
    return {"id": name, "name": name, **sizes, "os-flavor-access:is_public": name != PRIVATE_FLAVOR}


def _list_aggregate_hosts(drawer: Any, aggregate: str) -> list[str]:
    document = drawer.read_document(f"/compute/v2.1/os-aggregates/{aggregate}")
    return list(document.get("aggregate", {}).get("hosts", ()))


def _list_down_hosts(drawer: Any) -> list[str]:
    hosts = drawer.read_document("/scheduler/v1/hosts?state=down").get("hosts", [])
    return [host["host"] for host in hosts]


def _build_host_report(host: str) -> dict[str, object]:
    """Return a report of a host. The spare host has no capacity for instances."""
    sizes = {"memory_mb": 1, "local_gb": 1} if host == SPARE_HOST else {}
    return make_report(host, vcpus=200, stats={"uptime": "up 3 days"}, **sizes)


def _build_explain_request(drawer: WriteRequestDrawer) -> dict[str, object]:
    return {"request_spec": make_spec(drawer.draw_consumer(), num_instances=1)}


#: Bodies of requests that change nothing, and of writes that use spare names.
BODY_BUILDERS: Mapping[str, Callable[[WriteRequestDrawer, Any], Any]] = {
    "POST /placement/resource_classes": lambda _w, draw: {
        "name": draw(SPARE_OBJECT_NAMES["resource_class"])
    },
    "PUT /placement/resource_classes/<name>": lambda _w, draw: {
        "name": draw([*SPARE_OBJECT_NAMES["resource_class"], *CUSTOM_CLASSES])
    },
    "POST /compute/v2.1/flavors": lambda _w, draw: {
        "flavor": _build_flavor(draw(SPARE_OBJECT_NAMES["flavor_id"]))
    },
    f"POST {_FLAVOR_PATH}/action addTenantAccess": lambda _w, draw: {
        "addTenantAccess": {"tenant": draw(["p1", "p2", "p3"])}
    },
    f"POST {_FLAVOR_PATH}/os-extra_specs": lambda _w, _draw: {"extra_specs": _EXTRA_SPECS},
    f"PUT {_FLAVOR_PATH}/os-extra_specs/<key>": lambda w, _draw: {
        (key := w.drawn["key"]): _EXTRA_SPECS.get(key, "required")
    },
    f"POST {_IMAGES_PATH}": lambda _w, draw: {
        **draw([{}, {"id": draw(SPARE_OBJECT_NAMES["image_id"])}]),
        **_NEW_IMAGE,
    },
    f"POST {_AGGREGATES_PATH}": lambda _w, draw: {
        "aggregate": {"name": f"a{draw('123456')}", "availability_zone": draw([None, "az1"])}
    },
    f"POST {_AGGREGATE_PATH}/action remove_host": lambda w, draw: {
        "remove_host": {"host": draw(_list_aggregate_hosts(w, w.drawn["aggregate_id"]) or HOSTS)}
    },
    "PUT /scheduler/v1/compute_nodes/<uuid>": lambda w, _draw: _build_host_report(
        next(host for host in HOSTS if uuid_of(host) == w.drawn["uuid"])
    ),
    "POST /scheduler/v1/compute_nodes": lambda _w, draw: [
        _build_host_report(draw([*HOSTS, SPARE_HOST]))
    ],
    "POST /scheduler/v1/explain": lambda w, draw: {
        **_build_explain_request(w),
        "max_rejected": draw([0, 5]),
    },
    "POST /scheduler/v1/capacity": lambda w, draw: {
        **_build_explain_request(w),
        "per": draw(["zone", None]),
    },
    "POST /scheduler/v1/failover_capacity": lambda _w, draw: {
        "host_failures": draw([1, 2]),
        "within": draw(["zone", None]),
    },
    "POST /scheduler/v1/violations": lambda _w, _draw: {},
    "POST /scheduler/v1/plan": lambda _w, draw: {"changes": [{"drain": [draw(HOSTS)]}]},
    "POST /scheduler/v1/evacuation": lambda w, draw: {"host": draw(_list_down_hosts(w) or HOSTS)},
    "POST /scheduler/v1/rebalance": lambda _w, draw: {
        "goal": draw(_PLAN_GOALS),
        "moves": draw([1, 3]),
    },
    "POST /scheduler/v1/decisions/<uuid>/replay": lambda _w, draw: {
        "settings": draw(["now", "then"])
    },
    "PUT /scheduler/v1/plan_runs/<uuid>/moves/<instance>": lambda _w, draw: {
        "executor": str(UUID(int=1)),
        "state": draw(["started", "failed"]),
    },
}
#: Bodies of older versions, with the last version that accepts them.
OLD_BODY_BUILDERS: Mapping[str, tuple[str, Callable[[WriteRequestDrawer, Any], Any]]] = {
    "PUT /placement/allocations/<consumer_uuid>": (
        "1.7",
        lambda _w, draw: {
            "allocations": [
                {"resource_provider": {"uuid": draw(PROVIDER_UUIDS)}, "resources": {"VCPU": 1}}
            ]
        },
    ),
    "PUT /placement/resource_providers/<uuid>/aggregates": (
        "1.18",
        lambda _w, draw: [draw(AGGREGATES)],
    ),
    "POST /compute/v2.1/os-server-groups": (
        "2.63",
        lambda _w, draw: {"server_group": {"name": "g", "policies": [draw(["affinity"])]}},
    ),
}


class ExistingNameDrawer(WriteRequestDrawer):
    """Draws names of existing objects, including ids that the service assigns."""

    #: Probability of a name that may not exist.
    missing_share = 0.25

    def read_document(self, path: str) -> Any:
        """Return the document at a path, {} without a document."""
        return self._get(path)

    def _draw_path_value(self, rule: str, name: str) -> object:
        return self._find_existing_name(rule, name) or super()._draw_path_value(rule, name)

    def _find_existing_name(self, rule: str, name: str) -> str | None:
        """Return the name of an existing object, None if ``writes.py`` has a name."""
        draw, may_be_missing = (self._dice.choice, self._dice.random() < self.missing_share)
        if "decisions" in rule or "plan_runs" in rule:
            return (
                self._draw_listed_name("decision")
                if "decisions" in rule
                else self._draw_unfinished_run_or_move(rule, name)
            )
        if "instances" in rule:
            return None if may_be_missing else self._draw_listed_name("server_id")
        if "resource_classes" in rule:
            return draw(SPARE_OBJECT_NAMES["resource_class"]) if may_be_missing else None
        if rule.startswith(_FLAVOR_PATH) and rule.endswith(("access", "action")):
            return PRIVATE_FLAVOR
        if name == "hypervisor_id" and rule.endswith(("/search", "/servers")):
            return "cn"
        if name in _EXISTING_OBJECT_LISTS:
            return self._draw_listed_name(name) or draw(PATH_PARAMETERS.get(name, PROVIDER_UUIDS))
        if name in {"member_id", "key", "tag"}:
            return None if may_be_missing else self._choose_tag_or_extra_spec(name)
        return draw(self._list_possible_path_names(rule, name) or [None])

    def _draw_unfinished_run_or_move(self, rule: str, name: str) -> str | None:
        """Return an unfinished run, or the instance of an unfinished move."""
        states = ("running",) if "moves" in rule else ("running", "stopped", "failed")
        runs = self._get("/scheduler/v1/plan_runs").get("plan_runs", [])
        if name == "uuid":
            open_runs = [
                run["uuid"]
                for run in runs
                if run["state"] in states
                and sum(run["counts"][each] for each in _UNFINISHED_MOVE_STATES)
            ]
            return self._dice.choice(open_runs) if open_runs else None
        run = self._get(f"/scheduler/v1/plan_runs/{self.drawn['uuid']}")
        open_moves = [
            each["instance"]
            for each in run.get("moves", [])
            if each["state"] in _UNFINISHED_MOVE_STATES
        ]
        return self._dice.choice(open_moves) if open_moves else None

    @staticmethod
    def _list_possible_path_names(rule: str, name: str) -> Sequence[str]:
        if name == "name" and "traits" not in rule:
            return ["default"] if "policies" in rule else HOSTS
        return _PROXIED_API_PATHS["GET"] if name == "path" else _OTHER_PATH_PARAMETERS.get(name, ())

    def build_claim(self, consumer: str) -> dict[str, object]:
        """Return a small claim of a consumer, so that most claims succeed."""
        few = {uuid: {"resources": {"VCPU": 1}} for uuid in self._dice.sample(PROVIDER_UUIDS, 1)}
        return {**super().build_claim(consumer), "allocations": few}

    def _draw_listed_name(self, name: str) -> str | None:
        path, key, inside = _EXISTING_OBJECT_LISTS[name]
        names = [item[inside] for item in self._get(path).get(key, [])]
        return self._dice.choice(names) if names else None

    def _choose_tag_or_extra_spec(self, name: str) -> str | None:
        """Return a tag of the image in the path, or an extra spec of the flavor."""
        if name == "key":
            path = f"/compute/v2.1/flavors/{quote(self.drawn['flavor_id'])}/os-extra_specs"
            names = list(self._get(path).get("extra_specs", {}))
        else:
            path = f"/image/v2/images/{quote(self.drawn['image_id'])}"
            names = self._get(path).get("tags", [])
        return self._dice.choice(names) if names else None


@dataclass
class ValidRequestDrawer:
    """Draws valid requests for endpoints."""

    names: ExistingNameDrawer
    dice: random.Random
    headers: Mapping[str, str] = field(default_factory=lambda: ADMIN_SERVICE_HEADERS)
    #: Probability of each optional parameter of a query string.
    optional_share: float = 0.15

    def draw_request(self, endpoint: Endpoint) -> DrawnRequest:
        """Return a request that the endpoint answers with success."""
        version = endpoint.newest_version
        self.names.drawn.clear()
        path = PARAMETER.sub(
            lambda match: self._build_path_value(endpoint, match[1]), endpoint.rule
        )
        body = self._build_body(endpoint, path)
        older = OLD_BODY_BUILDERS.get(endpoint.name)
        if older is not None and self.dice.random() < 0.2:
            version, body = older[0], older[1](self.names, self.dice.choice)
        headers = {
            **self.headers,
            "User-Agent": DRAWN_USER_AGENT,
            "OpenStack-API-Version": f"{endpoint.api} {version}",
            "Accept": "text/html" if endpoint.api == "console" else "application/json",
        }
        kinds = endpoint.route.content_types if endpoint.route else ("application/json",)
        if endpoint.rule.startswith("/console/sign"):
            kinds = (FORM_CONTENT_TYPE,)
            body = None if body is None else urlencode(_LOGIN_FORM).encode()
        if endpoint.method != "GET" and endpoint.api == "console":
            headers["Sec-Fetch-Site"] = "same-origin"
        if body is not None:
            headers["Content-Type"] = kinds[0]
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
        return DrawnRequest(
            endpoint, endpoint.method, path, self._build_query(endpoint), headers, body
        )

    def _build_path_value(self, endpoint: Endpoint, name: str) -> str:
        if name == "path" and endpoint.method in _PROXIED_API_PATHS:
            return self.dice.choice(_PROXIED_API_PATHS[endpoint.method])
        safe = "/" if name in {"below", "rest"} else ""
        return quote(self.names.draw_parameter(endpoint.rule, name), safe=safe)

    def _build_query(self, endpoint: Endpoint) -> list[tuple[str, str]]:
        name = endpoint.name.replace("/console/hosts", "/console/cloud")
        needed = REQUIRED_PARAMETERS.get(name, {})
        possible = [
            item
            for item in OPTIONAL_PARAMETERS.get(name, {}).items()
            if self.dice.random() < self.optional_share
        ]
        return [(key, self.dice.choice(values)) for key, values in [*needed.items(), *possible]]

    def _build_body(self, endpoint: Endpoint, path: str) -> Any:
        name = endpoint.name
        if endpoint.api == "console":
            if endpoint.method != "POST":
                return None
            name = f"POST {path.removeprefix('/console/api')}"
        maker = BODY_BUILDERS.get(name)
        body = maker(self.names, self.dice.choice) if maker else self.names.draw_body(name)
        if body is None and endpoint.method in {"POST", "PUT", "PATCH"}:
            return b"" if endpoint.route and not endpoint.route.takes_body else {}
        return body


def create_cloud_objects(send: JsonRequestSender, project: str = "p1") -> None:
    """Create the objects of valid requests, with instances of ``project``."""
    hosts = [_build_host_report(host) for host in (*HOSTS, SPARE_HOST)]
    send("POST", "/scheduler/v1/compute_nodes", hosts, "scheduler 1.0")
    requests, response = _build_creation_requests(project), None
    while True:
        try:
            method, path, body = requests.send(response)
        except StopIteration:
            return
        response = send(method, path, body, f"{path.split('/')[1]} latest")


def _build_creation_requests(project: str) -> Generator[tuple[str, str, Any], Any, None]:
    """Yield requests. The caller sends each response back."""
    for name in CUSTOM_CLASSES:
        yield "PUT", f"/placement/resource_classes/{name}", None
    for name in TRAITS[:2]:
        yield "PUT", f"/placement/traits/{name}", None
    for uuid in PROVIDER_UUIDS:
        yield "POST", "/placement/resource_providers", {"uuid": uuid, "name": uuid}
        stocks = {
            "VCPU": {"total": PROVIDER_VCPUS},
            **{name: {"total": 40} for name in CUSTOM_CLASSES},
        }
        inventories = {"resource_provider_generation": 0, "inventories": stocks}
        yield "PUT", f"/placement/resource_providers/{uuid}/inventories", inventories
    for name in PATH_PARAMETERS["flavor_id"]:
        yield "POST", "/compute/v2.1/flavors", {"flavor": _build_flavor(name)}
        if name == PRIVATE_FLAVOR:
            access = {"addTenantAccess": {"tenant": "p1"}}
            yield "POST", f"/compute/v2.1/flavors/{name}/action", access
        spec_of = {"extra_specs": {"hw:cpu_policy": "shared"}}
        yield "POST", f"/compute/v2.1/flavors/{name}/os-extra_specs", spec_of
    for uuid in PATH_PARAMETERS["image_id"]:
        yield "POST", "/image/v2/images", {"id": uuid, "tags": ["b"], **_NEW_IMAGE}
        yield "PUT", f"/image/v2/images/{uuid}/file", b""
    created = yield "POST", _AGGREGATES_PATH, {"aggregate": {"name": "a1"}}
    action = f"{_AGGREGATES_PATH}/{created['aggregate']['id']}/action"
    for host in HOSTS[:3]:
        yield "POST", action, {"add_host": {"host": host}}
    yield (
        "POST",
        "/compute/v2.1/os-server-groups",
        {"server_group": {"name": "g", "policy": "affinity"}},
    )
    for number in (1, 2):
        selected = {"request_spec": make_spec(f"00000000-0000-0000-0000-00000000000{number}")}
        yield "POST", "/scheduler/v1/select_destinations", selected
        recorded = {"host": HOSTS[0], "node": HOSTS[0], "project_id": project, "vm_state": "active"}
        yield (
            "PUT",
            f"/scheduler/v1/instances/00000000-0000-0000-0000-00000000000{number}",
            recorded,
        )
    listed = yield "GET", f"/compute/v2.1/os-services?host={SPARE_HOST}", None
    service = listed["services"][0]["id"]
    yield "PUT", f"/compute/v2.1/os-services/{service}", {"forced_down": True}
    moves = [{"instance": str(UUID(int=number)), "from": "cn1", "to": "cn2"} for number in (1, 2)]
    run = {"kind": "drain", "method": "live", "parallel": 1, "executor": str(UUID(int=1))}
    yield "POST", "/scheduler/v1/plan_runs", {**run, "moves": moves}
