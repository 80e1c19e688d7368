# SPDX-License-Identifier: Apache-2.0
"""Requests for each route that writes, with few names, so that writers often conflict."""

import random
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote
from uuid import UUID

from placement_sched.api.routing import PARAMETER
from tests.support.clouds import uuid_of
from tests.support.scheduling import make_flavor, make_report, make_spec

#: Returns the document at a path, {} without a document.
DocumentReader = Callable[[str], Any]

PROVIDER_UUIDS = [f"77777777-0000-4000-8000-00000000000{digit}" for digit in range(5)]
AGGREGATES = [f"88888888-0000-4000-8000-00000000000{digit}" for digit in range(3)]
IMAGE_UUIDS = [f"66666666-0000-4000-8000-00000000000{digit}" for digit in range(3)]
HOSTS = ["cn1", "cn2", "cn3", "cn4"]
CUSTOM_CLASSES = ["CUSTOM_A", "CUSTOM_B", "CUSTOM_C"]
TRAITS = ["CUSTOM_RED", "CUSTOM_BLUE", "HW_CPU_X86_AVX2"]
FLAVOR_IDS = ["f1", "f2", "f3"]
EXTRA_SPEC_KEYS = ["trait:CUSTOM_RED", "hw:cpu_policy"]
#: VCPUs of each provider. Most claims exceed the remaining capacity. No writer changes the total,
#: so a larger sum of allocations is a fault.
PROVIDER_VCPUS = 4
#: Values of other path parameters.
PATH_PARAMETERS = {
    "resource_class": [*CUSTOM_CLASSES, "VCPU"],
    "flavor_id": FLAVOR_IDS,
    "image_id": IMAGE_UUIDS,
    "key": EXTRA_SPEC_KEYS,
    "member_id": ["p1", "p2"],
    "tag": ["a", "b"],
}
#: Objects whose ids the service assigns: path and key of the list, and an unknown id.
LISTS_OF_ASSIGNED_IDS = {
    "aggregate_id": ("/compute/v2.1/os-aggregates", "aggregates", "1"),
    "server_group_id": ("/compute/v2.1/os-server-groups", "server_groups", "none"),
    "service_id": ("/compute/v2.1/os-services", "services", str(UUID(int=1))),
}
#: Routes that change nothing, despite their method.
ROUTES_WITHOUT_EFFECT = (
    "POST /scheduler/v1/capacity",
    "POST /scheduler/v1/evacuation",
    "POST /scheduler/v1/explain",
    "POST /scheduler/v1/failover_capacity",
    "POST /scheduler/v1/plan",
    "POST /scheduler/v1/rebalance",
    "POST /scheduler/v1/violations",
    "POST /scheduler/v1/decisions/<uuid>/replay",
)


class WriteRequestDrawer:
    """Draws requests of a writer, and reads generations and ids first, as a client does."""

    def __init__(self, dice: random.Random, get: DocumentReader) -> None:
        self._dice, self._get = dice, get
        self.drawn: dict[str, str] = {}

    def draw_path(self, rule: str) -> str:
        """Return a path of a URL rule, with drawn parameters."""
        return PARAMETER.sub(
            lambda match: quote(self.draw_parameter(rule, match[1]), safe=""), rule
        )

    def draw_parameter(self, rule: str, name: str) -> str:
        """Draw the value of a parameter of a URL rule."""
        self.drawn[name] = value = str(self._draw_path_value(rule, name))
        return value

    def _draw_path_value(self, rule: str, name: str) -> object:
        draw = self._dice.choice
        if name in LISTS_OF_ASSIGNED_IDS:
            return self._draw_listed_id(*LISTS_OF_ASSIGNED_IDS[name])
        if name in {"consumer_uuid", "instance"} or (name == "uuid" and "instances" in rule):
            return self.draw_consumer()
        if name == "uuid" and "plan_runs" in rule:
            return self._draw_plan_run()
        if name == "uuid":
            return uuid_of(draw(HOSTS)) if "compute_nodes" in rule else draw(PROVIDER_UUIDS)
        if name == "name":
            return draw(TRAITS[:2] if "traits" in rule else CUSTOM_CLASSES)
        return draw(PATH_PARAMETERS[name])

    def _draw_listed_id(self, path: str, key: str, otherwise: object) -> object:
        ids = [item["id"] for item in self._get(path).get(key, [])]
        return self._dice.choice(ids) if ids else otherwise

    def _draw_plan_run(self) -> object:
        runs = self._get("/scheduler/v1/plan_runs").get("plan_runs", [])
        return self._dice.choice([run["uuid"] for run in runs] or [str(UUID(int=1))])

    def draw_consumer(self) -> str:
        """Draw the UUID of a consumer."""
        return str(UUID(int=self._dice.randint(1, 12)))

    def read_generation(self, provider: str | None = None) -> int:
        """Return the generation of a provider, by default of the provider in the path."""
        provider = provider or self.drawn["uuid"]
        document = self._get(f"/placement/resource_providers/{provider}")
        return int(document.get("generation", 0))

    def draw_inventories(self) -> dict[str, object]:
        """Return inventories of VCPU and of a custom class."""
        return {
            name: self.draw_inventory(name) for name in ("VCPU", self._dice.choice(CUSTOM_CLASSES))
        }

    def draw_inventory(self, resource_class: str) -> dict[str, int]:
        return {"total": PROVIDER_VCPUS if resource_class == "VCPU" else self._dice.randint(20, 60)}

    def build_claim(self, consumer: str) -> dict[str, object]:
        """Return the body of a claim for a consumer."""
        held = self._get(f"/placement/allocations/{consumer}")
        chosen = self._dice.sample(PROVIDER_UUIDS, self._dice.choice([1, 1, 2]))
        return {
            "allocations": {
                uuid: {"resources": {"VCPU": self._dice.randint(1, 4)}} for uuid in chosen
            },
            "project_id": "p1",
            "user_id": "u1",
            "consumer_generation": held.get("consumer_generation"),
            "consumer_type": "INSTANCE",
        }

    def build_reshape(self) -> dict[str, object]:
        """Return new inventories of a provider with new allocations of a consumer."""
        provider, consumer = self._dice.choice(PROVIDER_UUIDS), self.draw_consumer()
        inventories = {
            "resource_provider_generation": self.read_generation(provider),
            "inventories": self.draw_inventories(),
        }
        allocations = {consumer: self.build_claim(consumer)}
        return {"inventories": {provider: inventories}, "allocations": allocations}

    def draw_body(self, write: str) -> Any:
        """Return the body of a write, None for a write without body."""
        maker = BODY_BUILDERS.get(write)
        return None if maker is None else maker(self, self._dice.choice)


def _build_service_body(_drawer: WriteRequestDrawer, draw: Any) -> dict[str, object]:
    return {"host": draw(HOSTS), "binary": "nova-compute"}


_PROVIDER_PATH = "/placement/resource_providers/<uuid>"
_FLAVOR_PATH = "/compute/v2.1/flavors/<flavor_id>"
_AGGREGATE_PATH = "/compute/v2.1/os-aggregates/<aggregate_id>"
_IMAGE_PATH = "/image/v2/images/<image_id>"
_SERVICES_PATH = "/compute/v2.1/os-services"

#: Bodies of writes by method, rule and action.
BODY_BUILDERS: Mapping[str, Callable[[WriteRequestDrawer, Any], Any]] = {
    "POST /placement/resource_providers": lambda _w, draw: {
        "uuid": (uuid := draw(PROVIDER_UUIDS)),
        "name": uuid,
        **draw([{}, {"parent_provider_uuid": draw(PROVIDER_UUIDS)}]),
    },
    f"PUT {_PROVIDER_PATH}": lambda w, draw: {
        "name": w.drawn["uuid"] + draw(["", "a"]),
        "parent_provider_uuid": draw([None, *PROVIDER_UUIDS]),
    },
    f"PUT {_PROVIDER_PATH}/aggregates": lambda w, draw: {
        "resource_provider_generation": w.read_generation(),
        "aggregates": [draw(AGGREGATES)],
    },
    f"PUT {_PROVIDER_PATH}/traits": lambda w, draw: {
        "resource_provider_generation": w.read_generation(),
        "traits": [draw(TRAITS)],
    },
    f"PUT {_PROVIDER_PATH}/inventories": lambda w, _draw: {
        "resource_provider_generation": w.read_generation(),
        "inventories": w.draw_inventories(),
    },
    f"PUT {_PROVIDER_PATH}/inventories/<resource_class>": lambda w, _draw: {
        "resource_provider_generation": w.read_generation(),
        **w.draw_inventory(w.drawn["resource_class"]),
    },
    f"POST {_PROVIDER_PATH}/inventories": lambda w, draw: {
        "resource_class": (name := draw([*CUSTOM_CLASSES, "VCPU"])),
        **w.draw_inventory(name),
    },
    "PUT /placement/allocations/<consumer_uuid>": lambda w, _draw: w.build_claim(
        w.drawn["consumer_uuid"]
    ),
    "POST /placement/allocations": lambda w, _draw: {
        (a := w.draw_consumer()): w.build_claim(a),
        (b := w.draw_consumer()): w.build_claim(b),
    },
    "POST /placement/reshaper": lambda w, _draw: w.build_reshape(),
    "POST /placement/resource_classes": lambda _w, draw: {"name": draw(CUSTOM_CLASSES)},
    "PUT /placement/resource_classes/<name>": lambda _w, draw: {"name": draw(CUSTOM_CLASSES)},
    "POST /scheduler/v1/compute_nodes": lambda _w, draw: [make_report(draw(HOSTS), vcpus=200)],
    "PUT /scheduler/v1/compute_nodes/<uuid>": lambda w, _draw: make_report(
        next(host for host in HOSTS if uuid_of(host) == w.drawn["uuid"]), vcpus=200
    ),
    "PUT /scheduler/v1/instances/<uuid>": lambda _w, draw: {
        "host": (host := draw(HOSTS)),
        "node": host,
        "flavor": make_flavor(),
    },
    "POST /scheduler/v1/plan_runs": lambda w, draw: {
        "kind": draw(["plan", "rebalance", "drain"]),
        "method": draw(["live", "cold"]),
        "parallel": draw([1, 3]),
        "executor": str(UUID(int=1)),
        "moves": [{"instance": w.draw_consumer(), "from": "cn1", "to": draw(HOSTS[1:])}],
    },
    "PUT /scheduler/v1/plan_runs/<uuid>": lambda _w, draw: {
        "executor": str(UUID(int=1)),
        "state": draw(["running", "stopped", "failed"]),
    },
    "PUT /scheduler/v1/plan_runs/<uuid>/moves/<instance>": lambda _w, draw: {
        "executor": str(UUID(int=1)),
        "state": draw(["started", "done", "failed", "skipped"]),
    },
    "POST /scheduler/v1/select_destinations": lambda w, _draw: {
        "request_spec": make_spec(w.draw_consumer(), flavor=make_flavor(memory_mb=64, root_gb=1))
    },
    "POST /compute/v2.1/flavors": lambda _w, draw: {
        "flavor": {
            "id": (name := draw(FLAVOR_IDS)),
            "name": name,
            "vcpus": 1,
            "ram": 64,
            "disk": 1,
            "os-flavor-access:is_public": draw([True, False]),
        }
    },
    f"PUT {_FLAVOR_PATH}": lambda _w, draw: {"flavor": {"description": draw(TRAITS)}},
    f"POST {_FLAVOR_PATH}/action addTenantAccess": lambda _w, _draw: {
        "addTenantAccess": {"tenant": "p1"}
    },
    f"POST {_FLAVOR_PATH}/action removeTenantAccess": lambda _w, _draw: {
        "removeTenantAccess": {"tenant": "p1"}
    },
    f"POST {_FLAVOR_PATH}/os-extra_specs": lambda _w, draw: {
        "extra_specs": {draw(EXTRA_SPEC_KEYS): "required"}
    },
    f"PUT {_FLAVOR_PATH}/os-extra_specs/<key>": lambda w, _draw: {w.drawn["key"]: "required"},
    "POST /compute/v2.1/os-aggregates": lambda _w, draw: {
        "aggregate": {"name": draw(["a1", "a2"]), "availability_zone": draw([None, "az1"])}
    },
    f"PUT {_AGGREGATE_PATH}": lambda _w, draw: {"aggregate": {"name": draw(["a1", "a2", "a3"])}},
    f"POST {_AGGREGATE_PATH}/action add_host": lambda _w, draw: {"add_host": {"host": draw(HOSTS)}},
    f"POST {_AGGREGATE_PATH}/action remove_host": lambda _w, draw: {
        "remove_host": {"host": draw(HOSTS)}
    },
    f"POST {_AGGREGATE_PATH}/action set_metadata": lambda _w, draw: {
        "set_metadata": {"metadata": {"ssd": draw(["true", None])}}
    },
    f"POST {_AGGREGATE_PATH}/images": lambda _w, draw: {"cache": [{"id": draw(IMAGE_UUIDS)}]},
    "POST /compute/v2.1/os-server-groups": lambda _w, draw: {
        "server_group": {"name": "g", "policy": draw(["affinity", "anti-affinity"])}
    },
    f"PUT {_SERVICES_PATH}/<service_id>": lambda _w, draw: {
        "status": draw(["enabled", "disabled"])
    },
    f"PUT {_SERVICES_PATH}/enable": _build_service_body,
    f"PUT {_SERVICES_PATH}/disable": _build_service_body,
    f"PUT {_SERVICES_PATH}/disable-log-reason": lambda w, draw: {
        **_build_service_body(w, draw),
        "disabled_reason": "x",
    },
    f"PUT {_SERVICES_PATH}/force-down": lambda w, draw: {
        **_build_service_body(w, draw),
        "forced_down": draw([True, False]),
    },
    "POST /image/v2/images": lambda _w, draw: {
        "id": draw(IMAGE_UUIDS),
        "name": "i",
        "visibility": "shared",
        "disk_format": "raw",
        "container_format": "bare",
    },
    f"PATCH {_IMAGE_PATH}": lambda _w, draw: [
        {"op": "replace", "path": "/name", "value": draw(TRAITS)}
    ],
    f"PUT {_IMAGE_PATH}/file": lambda _w, _draw: b"",
}
