# SPDX-License-Identifier: Apache-2.0
"""Clouds with instances, and execution of planned moves through the API."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from hypothesis import strategies as st

from tests.conftest import make_settings
from tests.support.api_clouds import COMPUTE_HEADERS
from tests.support.clouds import uuid_of
from tests.support.scheduling import make_flavor, make_report, make_spec, make_uuid, select_hosts
from tests.support.versions import LATEST_HEADERS

FLAVORS_BY_NAME = {
    f"m{size}": make_flavor(name=f"m{size}", memory_mb=1024 * size, root_gb=1) for size in (1, 4, 9)
}


def make_cloud_and_get_group_id(app: Any, memory_gb: Mapping[str, int], zone: Sequence[str]) -> str:
    """Report hosts, some in zone az1. Add an anti-affinity group and return its id."""
    reports = [make_report(name, memory_mb=1024 * size) for name, size in memory_gb.items()]
    app.post_json("/scheduler/v1/compute_nodes", reports)
    path = "/compute/v2.1/os-aggregates"
    body = {"aggregate": {"name": "agg", "availability_zone": "az1"}}
    number = app.post_json(path, body, headers=COMPUTE_HEADERS).json["aggregate"]["id"]
    for name in zone:
        app.post_json(
            f"{path}/{number}/action", {"add_host": {"host": name}}, headers=COMPUTE_HEADERS
        )
    body = {"server_group": {"name": "apart", "policy": "anti-affinity"}}
    groups = app.post_json("/compute/v2.1/os-server-groups", body, headers=COMPUTE_HEADERS)
    return groups.json["server_group"]["id"]


def place_instance(app: Any, number: int, fields: Mapping[str, Any]) -> bool:
    """Place an instance if a host is found, and return whether it is placed."""
    body = {"request_spec": make_spec(make_uuid(number), **fields)}
    response = app.post_json("/scheduler/v1/select_destinations", body, expect_errors=True)
    return response.status_int == 200


def read_host_of_instance(app: Any, uuid: str) -> str:
    """Return the recorded host of an instance."""
    return app.get(f"/scheduler/v1/instances/{uuid}").json["host"]


def execute_move(app: Any, move: dict[str, str], **fields: Any) -> None:
    """Move an instance as nova does, with its allocations held by another consumer."""
    uuid, consumer = move["instance"], str(uuid4())
    before = app.get(f"/scheduler/v1/instances/{uuid}").json
    assert before["host"] == move["from"]
    stored = app.get(f"/placement/allocations/{uuid}", headers=LATEST_HEADERS).json
    owner = {key: stored[key] for key in ("project_id", "user_id", "consumer_type")}
    allocations = {
        provider: {"resources": entry["resources"]}
        for provider, entry in stored["allocations"].items()
    }
    swap = {
        consumer: {"allocations": allocations, "consumer_generation": None, **owner},
        uuid: {"allocations": {}, "consumer_generation": stored["consumer_generation"], **owner},
    }
    app.post_json("/placement/allocations", swap, headers=LATEST_HEADERS)
    request = make_spec(uuid, flavor=before["flavor"], **fields)
    request["requested_destination"] = {"host": move["to"], "node": move["to"]}
    result = select_hosts(app, request)
    assert result["selections"][0][0]["service_host"] == move["to"]
    record = {key: before[key] for key in ("project_id", "user_id", "flavor", "server_group")}
    body = {**record, "host": move["to"], "node": move["to"], "vm_state": "active"}
    app.put_json(f"/scheduler/v1/instances/{uuid}", body)
    app.delete(f"/placement/allocations/{consumer}", headers=LATEST_HEADERS)


def read_usage_of_host(app: Any, host: str) -> dict[str, int]:
    path = f"/placement/resource_providers/{uuid_of(host)}/usages"
    return app.get(path, headers=LATEST_HEADERS).json["usages"]


def make_app_on_new_database(make_app: Any, template: Path, folder: Path, **options: Any) -> Any:
    """Return an application on a new copy of an empty database."""
    file = folder / f"{uuid4()}.db"
    shutil.copy(template, file)
    return make_app(make_settings(f"sqlite:///{file}", **options))


@st.composite
def draw_small_cloud(draw: Any) -> tuple[list[int], list[dict[str, Any]], set[str]]:
    """Return sizes of hosts in GB, fields of requests, and hosts to drain."""
    sizes = draw(st.lists(st.integers(4, 20), min_size=2, max_size=5))
    names = [f"cn{index}" for index in range(1, len(sizes) + 1)]
    request = st.fixed_dictionaries(
        {"flavor": st.sampled_from(list(FLAVORS_BY_NAME.values()))},
        optional={
            "availability_zone": st.just("az1"),
            "instance_group": st.just("apart"),
            "force_hosts": st.sampled_from([[name] for name in names]),
        },
    )
    drained = st.sets(st.sampled_from(names), min_size=1, max_size=2)
    return sizes, draw(st.lists(request, max_size=8)), draw(drained)


def fill_small_cloud(
    app: Any, sizes: Sequence[int], requests: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Create a cloud of :func:`draw_small_cloud`, and return zone and group of each instance."""
    names = [f"cn{index}" for index in range(1, len(sizes) + 1)]
    group = make_cloud_and_get_group_id(app, dict(zip(names, sizes, strict=True)), names[::2])
    placed = {}
    for index, request in enumerate(requests, 1):
        fields = dict(request)
        if "instance_group" in fields:
            fields["instance_group"] = group
        if place_instance(app, index, fields):
            keys = ("availability_zone", "instance_group")
            placed[make_uuid(index)] = {key: fields[key] for key in keys if key in fields}
    return placed
