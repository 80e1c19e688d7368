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
from tests.chaos.queries import NEEDED, POSSIBLE
from tests.chaos.writes import (
    AGGREGATES,
    CLASSES,
    HOSTS,
    NAMES,
    PROVIDERS,
    TRAITS,
    VCPUS,
    WriteRequestDrawer,
)
from tests.support.clouds import uuid_of
from tests.support.identity import PASSWORD, USER
from tests.support.scheduling import report, spec

#: Sends method, path, body and version, and returns the document of the response.
Send = Callable[[str, str, Any, str], Any]
#: The user agent of drawn requests. Requests that a page sends have another.
AGENT = "grammar"
#: Headers of a caller that may do everything.
ALL_ROLES = {"X-Auth-Token": "admin", "X-Roles": "admin,service"}
FORM = "application/x-www-form-urlencoded"


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
    def address(self) -> str:
        """The path with the query string."""
        query = urlencode(self.query, errors="replace")
        return f"{self.path}?{query}" if query else self.path


#: Values of the login form.
_SIGN_IN = {"user": USER, "password": PASSWORD, "project": "p1", "next": "/console/ask"}
#: Paths that the console passes on to the APIs.
_PASSED_ON = {
    "GET": ["scheduler/v1/hosts", "scheduler/v1/decisions", "placement/resource_providers"],
    "POST": ["scheduler/v1/explain", "scheduler/v1/capacity", "scheduler/v1/plan"],
}
#: Values of path parameters that ``writes.py`` does not have.
_IN_PATHS: Mapping[str, Sequence[str]] = {
    "host": HOSTS,
    "filename": ["console.css", "ask.js", "icon.svg"],
    "below": ["users/u1", "projects"],
    "rest": ["nowhere", "hosts"],
}
#: Lists of existing objects by path parameter: path, key, and field with the name.
_LISTS: Mapping[str, tuple[str, str, str]] = {
    "flavor_id": ("/compute/v2.1/flavors?is_public=None", "flavors", "id"),
    "image_id": ("/image/v2/images?os_hidden=false", "images", "id"),
    "hypervisor_id": ("/compute/v2.1/os-hypervisors", "hypervisors", "id"),
    "server_id": ("/scheduler/v1/instances", "instances", "uuid"),
    "decision": ("/scheduler/v1/decisions?limit=5", "decisions", "uuid"),
}
_GOALS = ("pack", "spread")
#: States of unfinished moves.
_OPEN = ("planned", "started", "failed")
#: Names of objects without references, so that requests can delete them.
SPARE_HOST = "cn5"
#: The flavor of some projects only.
PRIVATE = "f1"
SPARE = {
    "resource_class": ["CUSTOM_D", "CUSTOM_E"],
    "flavor_id": ["f4", "f5", "f1"],
    "image_id": ["66666666-0000-4000-8000-000000000008", "66666666-0000-4000-8000-000000000009"],
}
_AGGREGATES, _IMAGES = "/compute/v2.1/os-aggregates", "/image/v2/images"
_OF_FLAVOR = "/compute/v2.1/flavors/<flavor_id>"
_OF_AGGREGATE = f"{_AGGREGATES}/<aggregate_id>"
_PROVIDERS, _CLASSES = "/placement/resource_providers", "/placement/resource_classes"
#: For an endpoint, another endpoint whose requests create the objects it needs.
FIRST = {
    f"DELETE {_OF_AGGREGATE}": f"POST {_AGGREGATES}",
    f"POST {_OF_AGGREGATE}/action remove_host": (f"POST {_OF_AGGREGATE}/action add_host"),
    f"PUT {_IMAGES}/<image_id>/file": f"POST {_IMAGES}",
    f"DELETE {_IMAGES}/<image_id>/tags/<tag>": f"PUT {_IMAGES}/<image_id>/tags/<tag>",
    f"DELETE {_CLASSES}/<name>": f"POST {_CLASSES}",
    f"POST {_PROVIDERS}": f"DELETE {_PROVIDERS}/<uuid>",
    f"POST {_PROVIDERS}/<uuid>/inventories": f"DELETE {_PROVIDERS}/<uuid>/inventories",
    f"DELETE {_PROVIDERS}/<uuid>/inventories": "DELETE /placement/allocations/<consumer_uuid>",
    "DELETE /placement/allocations/<consumer_uuid>": "PUT /placement/allocations/<consumer_uuid>",
    f"POST {_OF_FLAVOR}/action addTenantAccess": "POST /compute/v2.1/flavors",
    f"POST {_OF_FLAVOR}/action removeTenantAccess": f"POST {_OF_FLAVOR}/action addTenantAccess",
    "DELETE /compute/v2.1/os-services/<service_id>": "POST /scheduler/v1/compute_nodes",
    "DELETE /scheduler/v1/instances/<uuid>": "PUT /scheduler/v1/instances/<uuid>",
    "PUT /scheduler/v1/plan_runs/<uuid>": "POST /scheduler/v1/plan_runs",
    "PUT /scheduler/v1/plan_runs/<uuid>/moves/<instance>": "POST /scheduler/v1/plan_runs",
}
#: Valid values of extra specs in the newest versions.
_VALUES = {"hw:cpu_policy": "shared", "trait:CUSTOM_RED": "required"}


_IMAGE = {"name": "i", "disk_format": "raw", "container_format": "bare", "visibility": "shared"}


def _build_flavor(name: str) -> dict[str, object]:
    sizes = {"vcpus": 1, "ram": 64, "disk": 1}
    return {"id": name, "name": name, **sizes, "os-flavor-access:is_public": name != PRIVATE}


def _list_hosts(world: Any, aggregate: str) -> list[str]:
    document = world.read(f"/compute/v2.1/os-aggregates/{aggregate}")
    return list(document.get("aggregate", {}).get("hosts", ()))


def _build_report(host: str) -> dict[str, object]:
    """Return a report of a host. The spare host has no capacity for instances."""
    sizes = {"memory_mb": 1, "local_gb": 1} if host == SPARE_HOST else {}
    return report(host, vcpus=200, stats={"uptime": "up 3 days"}, **sizes)


def _build_explain_request(world: WriteRequestDrawer) -> dict[str, object]:
    return {"request_spec": spec(world.consumer(), num_instances=1)}


#: Bodies of requests that change nothing, and of writes that use spare names.
BODIES: Mapping[str, Callable[[WriteRequestDrawer, Any], Any]] = {
    "POST /placement/resource_classes": lambda _w, draw: {"name": draw(SPARE["resource_class"])},
    "PUT /placement/resource_classes/<name>": lambda _w, draw: {
        "name": draw([*SPARE["resource_class"], *CLASSES])
    },
    "POST /compute/v2.1/flavors": lambda _w, draw: {
        "flavor": _build_flavor(draw(SPARE["flavor_id"]))
    },
    f"POST {_OF_FLAVOR}/action addTenantAccess": lambda _w, draw: {
        "addTenantAccess": {"tenant": draw(["p1", "p2", "p3"])}
    },
    f"POST {_OF_FLAVOR}/os-extra_specs": lambda _w, _draw: {"extra_specs": _VALUES},
    f"PUT {_OF_FLAVOR}/os-extra_specs/<key>": lambda w, _draw: {
        (key := w.drawn["key"]): _VALUES.get(key, "required")
    },
    f"POST {_IMAGES}": lambda _w, draw: {**draw([{}, {"id": draw(SPARE["image_id"])}]), **_IMAGE},
    f"POST {_AGGREGATES}": lambda _w, draw: {
        "aggregate": {"name": f"a{draw('123456')}", "availability_zone": draw([None, "az1"])}
    },
    f"POST {_OF_AGGREGATE}/action remove_host": lambda w, draw: {
        "remove_host": {"host": draw(_list_hosts(w, w.drawn["aggregate_id"]) or HOSTS)}
    },
    "PUT /scheduler/v1/compute_nodes/<uuid>": lambda w, _draw: _build_report(
        next(host for host in HOSTS if uuid_of(host) == w.drawn["uuid"])
    ),
    "POST /scheduler/v1/compute_nodes": lambda _w, draw: [
        _build_report(draw([*HOSTS, SPARE_HOST]))
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
    "POST /scheduler/v1/plan": lambda _w, draw: {"changes": [{"drain": [draw(HOSTS)]}]},
    "POST /scheduler/v1/rebalance": lambda _w, draw: {"goal": draw(_GOALS), "moves": draw([1, 3])},
    "POST /scheduler/v1/decisions/<uuid>/replay": lambda _w, draw: {
        "settings": draw(["now", "then"])
    },
    "PUT /scheduler/v1/plan_runs/<uuid>/moves/<instance>": lambda _w, draw: {
        "executor": str(UUID(int=1)),
        "state": draw(["started", "failed"]),
    },
}
#: Bodies of older versions, with the last version that accepts them.
OLDER: Mapping[str, tuple[str, Callable[[WriteRequestDrawer, Any], Any]]] = {
    "PUT /placement/allocations/<consumer_uuid>": (
        "1.7",
        lambda _w, draw: {
            "allocations": [
                {"resource_provider": {"uuid": draw(PROVIDERS)}, "resources": {"VCPU": 1}}
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


class ExistingNames(WriteRequestDrawer):
    """Draws names of existing objects, including ids that the service assigns."""

    #: Probability of a name that may not exist.
    rarely = 0.25

    def read(self, path: str) -> Any:
        """Return the document at a path, {} without a document."""
        return self._get(path)

    def _parameter(self, rule: str, name: str) -> object:
        return self._find_existing(rule, name) or super()._parameter(rule, name)

    def _find_existing(self, rule: str, name: str) -> str | None:
        """Return the name of an existing object, None if ``writes.py`` has a name."""
        draw, rarely = self._dice.choice, self._dice.random() < self.rarely
        if "decisions" in rule or "plan_runs" in rule:
            return (
                self._draw_name("decision")
                if "decisions" in rule
                else self._draw_unfinished_run_or_move(rule, name)
            )
        if "instances" in rule:
            return None if rarely else self._draw_name("server_id")
        if "resource_classes" in rule:
            return draw(SPARE["resource_class"]) if rarely else None
        if rule.startswith(_OF_FLAVOR) and rule.endswith(("access", "action")):
            return PRIVATE
        if name == "hypervisor_id" and rule.endswith(("/search", "/servers")):
            return "cn"
        if name in _LISTS:
            return self._draw_name(name) or draw(NAMES.get(name, PROVIDERS))
        if name in {"member_id", "key", "tag"}:
            return None if rarely else self._choose_tag_or_extra_spec(name)
        return draw(self._list_possible_path_names(rule, name) or [None])

    def _draw_unfinished_run_or_move(self, rule: str, name: str) -> str | None:
        """Return an unfinished run, or the instance of an unfinished move."""
        states = ("running",) if "moves" in rule else ("running", "stopped", "failed")
        runs = self._get("/scheduler/v1/plan_runs").get("plan_runs", [])
        if name == "uuid":
            open_runs = [
                run["uuid"]
                for run in runs
                if run["state"] in states and sum(run["counts"][each] for each in _OPEN)
            ]
            return self._dice.choice(open_runs) if open_runs else None
        run = self._get(f"/scheduler/v1/plan_runs/{self.drawn['uuid']}")
        open_moves = [each["instance"] for each in run.get("moves", []) if each["state"] in _OPEN]
        return self._dice.choice(open_moves) if open_moves else None

    @staticmethod
    def _list_possible_path_names(rule: str, name: str) -> Sequence[str]:
        if name == "name" and "traits" not in rule:
            return ["default"] if "policies" in rule else HOSTS
        return _PASSED_ON["GET"] if name == "path" else _IN_PATHS.get(name, ())

    def claim(self, consumer: str) -> dict[str, object]:
        """Return a small claim of a consumer, so that most claims succeed."""
        few = {uuid: {"resources": {"VCPU": 1}} for uuid in self._dice.sample(PROVIDERS, 1)}
        return {**super().claim(consumer), "allocations": few}

    def _draw_name(self, name: str) -> str | None:
        path, key, inside = _LISTS[name]
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
class ValidRequests:
    """Draws valid requests for endpoints."""

    world: ExistingNames
    dice: random.Random
    headers: Mapping[str, str] = field(default_factory=lambda: ALL_ROLES)
    #: Probability of each optional parameter of a query string.
    more: float = 0.15

    def draw_request(self, endpoint: Endpoint) -> DrawnRequest:
        """Return a request that the endpoint answers with success."""
        version = endpoint.newest
        self.world.drawn.clear()
        path = PARAMETER.sub(
            lambda match: self._build_path_value(endpoint, match[1]), endpoint.rule
        )
        body = self._build_body(endpoint, path)
        older = OLDER.get(endpoint.name)
        if older is not None and self.dice.random() < 0.2:
            version, body = older[0], older[1](self.world, self.dice.choice)
        headers = {
            **self.headers,
            "User-Agent": AGENT,
            "OpenStack-API-Version": f"{endpoint.api} {version}",
            "Accept": "text/html" if endpoint.api == "console" else "application/json",
        }
        kinds = endpoint.route.content_types if endpoint.route else ("application/json",)
        if endpoint.rule.startswith("/console/sign"):
            kinds, body = (FORM,), None if body is None else urlencode(_SIGN_IN).encode()
        if endpoint.method != "GET" and endpoint.api == "console":
            headers["Sec-Fetch-Site"] = "same-origin"
        if body is not None:
            headers["Content-Type"] = kinds[0]
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
        return DrawnRequest(
            endpoint, endpoint.method, path, self._build_query(endpoint), headers, body
        )

    def _build_path_value(self, endpoint: Endpoint, name: str) -> str:
        if name == "path" and endpoint.method in _PASSED_ON:
            return self.dice.choice(_PASSED_ON[endpoint.method])
        safe = "/" if name in {"below", "rest"} else ""
        return quote(self.world.parameter(endpoint.rule, name), safe=safe)

    def _build_query(self, endpoint: Endpoint) -> list[tuple[str, str]]:
        name = endpoint.name.replace("/console/hosts", "/console/cloud")
        needed = NEEDED.get(name, {})
        possible = [
            item for item in POSSIBLE.get(name, {}).items() if self.dice.random() < self.more
        ]
        return [(key, self.dice.choice(values)) for key, values in [*needed.items(), *possible]]

    def _build_body(self, endpoint: Endpoint, path: str) -> Any:
        name = endpoint.name
        if endpoint.api == "console":
            if endpoint.method != "POST":
                return None
            name = f"POST {path.removeprefix('/console/api')}"
        maker = BODIES.get(name)
        body = maker(self.world, self.dice.choice) if maker else self.world.body(name)
        if body is None and endpoint.method in {"POST", "PUT", "PATCH"}:
            return b"" if endpoint.route and not endpoint.route.takes_body else {}
        return body


def create_objects(send: Send, project: str = "p1") -> None:
    """Create the objects of valid requests, with instances of ``project``."""
    hosts = [_build_report(host) for host in (*HOSTS, SPARE_HOST)]
    send("POST", "/scheduler/v1/compute_nodes", hosts, "scheduler 1.0")
    requests, answer = _build_creation_requests(project), None
    while True:
        try:
            method, path, body = requests.send(answer)
        except StopIteration:
            return
        answer = send(method, path, body, f"{path.split('/')[1]} latest")


def _build_creation_requests(project: str) -> Generator[tuple[str, str, Any], Any, None]:
    """Yield requests. The caller sends each response back."""
    for name in CLASSES:
        yield "PUT", f"/placement/resource_classes/{name}", None
    for name in TRAITS[:2]:
        yield "PUT", f"/placement/traits/{name}", None
    for uuid in PROVIDERS:
        yield "POST", "/placement/resource_providers", {"uuid": uuid, "name": uuid}
        stocks = {"VCPU": {"total": VCPUS}, **{name: {"total": 40} for name in CLASSES}}
        inventories = {"resource_provider_generation": 0, "inventories": stocks}
        yield "PUT", f"/placement/resource_providers/{uuid}/inventories", inventories
    for name in NAMES["flavor_id"]:
        yield "POST", "/compute/v2.1/flavors", {"flavor": _build_flavor(name)}
        if name == PRIVATE:
            access = {"addTenantAccess": {"tenant": "p1"}}
            yield "POST", f"/compute/v2.1/flavors/{name}/action", access
        spec_of = {"extra_specs": {"hw:cpu_policy": "shared"}}
        yield "POST", f"/compute/v2.1/flavors/{name}/os-extra_specs", spec_of
    for uuid in NAMES["image_id"]:
        yield "POST", "/image/v2/images", {"id": uuid, **_IMAGE}
        yield "PUT", f"/image/v2/images/{uuid}/file", b""
    made = yield "POST", _AGGREGATES, {"aggregate": {"name": "a1"}}
    action = f"{_AGGREGATES}/{made['aggregate']['id']}/action"
    for host in HOSTS[:3]:
        yield "POST", action, {"add_host": {"host": host}}
    yield (
        "POST",
        "/compute/v2.1/os-server-groups",
        {"server_group": {"name": "g", "policy": "affinity"}},
    )
    for number in (1, 2):
        selected = {"request_spec": spec(f"00000000-0000-0000-0000-00000000000{number}")}
        yield "POST", "/scheduler/v1/select_destinations", selected
        recorded = {"host": HOSTS[0], "node": HOSTS[0], "project_id": project, "vm_state": "active"}
        yield (
            "PUT",
            f"/scheduler/v1/instances/00000000-0000-0000-0000-00000000000{number}",
            recorded,
        )
    moves = [{"instance": str(UUID(int=number)), "from": "cn1", "to": "cn2"} for number in (1, 2)]
    run = {"kind": "drain", "method": "live", "parallel": 1, "executor": str(UUID(int=1))}
    yield "POST", "/scheduler/v1/plan_runs", {**run, "moves": moves}
