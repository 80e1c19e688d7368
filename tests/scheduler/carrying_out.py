# SPDX-License-Identifier: Apache-2.0
"""Clouds with instances, plans for them, and their moves carried out through the API."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

from hypothesis import strategies as st

from tests.conftest import make_settings
from tests.scheduler.test_scheduler import select
from tests.support.clouds import uuid_of
from tests.support.scheduling import flavor, instance, report, spec
from tests.support.versions import LATEST_HEADERS

COMPUTE = {"X-OpenStack-Nova-API-Version": "2.96", "X-Auth-Token": "admin"}
FLAVORS = {
    f"m{size}": flavor(name=f"m{size}", memory_mb=1024 * size, root_gb=1) for size in (1, 4, 9)
}


def fill(app: Any, random: Random, hosts: int, number: int) -> list[str]:
    """Make hosts, some in a zone, and place instances, some of them in a group; return uuids."""
    names = [f"cn{at}" for at in range(1, hosts + 1)]
    app.post_json(
        "/scheduler/v1/compute_nodes",
        [report(name, memory_mb=1024 * random.randint(8, 24), vcpus=40) for name in names],
    )
    body = {"aggregate": {"name": "agg", "availability_zone": "az1"}}
    made = app.post_json("/compute/v2.1/os-aggregates", body, headers=COMPUTE).json["aggregate"]
    for name in names[: hosts // 2]:
        act = {"add_host": {"host": name}}
        app.post_json(f"/compute/v2.1/os-aggregates/{made['id']}/action", act, headers=COMPUTE)
    group = {"server_group": {"name": "apart", "policy": "anti-affinity"}}
    of = app.post_json("/compute/v2.1/os-server-groups", group, headers=COMPUTE).json[
        "server_group"
    ]
    placed = []
    for at in range(1, number + 1):
        more: dict[str, Any] = {"flavor": random.choice(list(FLAVORS.values()))}
        if random.random() < 0.3:
            more["availability_zone"] = "az1"
        if random.random() < 0.3:
            more["instance_group"] = of["id"]
        more["force_hosts"] = [random.choice(names)] if random.random() < 0.3 else None
        body = {"request_spec": spec(instance(at), **more)}
        answer = app.post_json("/scheduler/v1/select_destinations", body, expect_errors=True)
        if answer.status_int == 200:
            placed.append(instance(at))
    return placed


def host_of(app: Any, uuid: str) -> str:
    """Return the host on which an instance is recorded."""
    return app.get(f"/scheduler/v1/instances/{uuid}").json["host"]


def carry_out(app: Any, move: dict[str, str], **more: Any) -> None:
    """Move an instance as nova does: what it holds goes to another consumer until it has moved.

    ``more`` is what it was asked for with. The host has to pass all filters.
    """
    uuid, other = move["instance"], str(uuid4())
    before = app.get(f"/scheduler/v1/instances/{uuid}").json
    assert before["host"] == move["from"]
    held = app.get(f"/placement/allocations/{uuid}", headers=LATEST_HEADERS).json
    owner = {key: held[key] for key in ("project_id", "user_id", "consumer_type")}
    allocations = {
        provider: {"resources": one["resources"]} for provider, one in held["allocations"].items()
    }
    swap = {
        other: {"allocations": allocations, "consumer_generation": None, **owner},
        uuid: {"allocations": {}, "consumer_generation": held["consumer_generation"], **owner},
    }
    app.post_json("/placement/allocations", swap, headers=LATEST_HEADERS)
    asked = spec(uuid, flavor=before["flavor"], **more)
    asked["requested_destination"] = {"host": move["to"], "node": move["to"]}
    answer = select(app, asked)
    assert answer["selections"][0][0]["service_host"] == move["to"]
    record = {key: before[key] for key in ("project_id", "user_id", "flavor", "server_group")}
    body = {**record, "host": move["to"], "node": move["to"], "vm_state": "active"}
    app.put_json(f"/scheduler/v1/instances/{uuid}", body)
    app.delete(f"/placement/allocations/{other}", headers=LATEST_HEADERS)


def disable(app: Any, host: str) -> None:
    """Disable the compute service of a host."""
    found = app.get(f"/compute/v2.1/os-services?host={host}", headers=COMPUTE).json["services"]
    path = f"/compute/v2.1/os-services/{found[0]['id']}"
    app.put_json(path, {"status": "disabled"}, headers=COMPUTE)


def usage(app: Any, host: str) -> dict[str, int]:
    """Return what is allocated of a host."""
    path = f"/placement/resource_providers/{uuid_of(host)}/usages"
    return app.get(path, headers=LATEST_HEADERS).json["usages"]


def application(make_app: Any, template: Path, folder: Path) -> Any:
    """Return an application on a new copy of an empty database."""
    file = folder / f"{uuid4()}.db"
    shutil.copy(template, file)
    return make_app(make_settings(f"sqlite:///{file}"))


@st.composite
def small_clouds(draw: Any) -> tuple[list[int], list[dict[str, Any]], set[str]]:
    """Return sizes of hosts in GB, what instances are asked with in turn, and hosts to drain."""
    sizes = draw(st.lists(st.integers(4, 20), min_size=2, max_size=5))
    names = [f"cn{at}" for at in range(1, len(sizes) + 1)]
    asked = st.fixed_dictionaries(
        {"flavor": st.sampled_from(list(FLAVORS.values()))},
        optional={
            "availability_zone": st.just("az1"),
            "instance_group": st.just("apart"),
            "force_hosts": st.sampled_from([[name] for name in names]),
        },
    )
    drained = st.sets(st.sampled_from(names), min_size=1, max_size=2)
    return sizes, draw(st.lists(asked, max_size=8)), draw(drained)


def made(app: Any, sizes: Sequence[int], asked: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Make such a cloud, half of its hosts in a zone; return what each instance is kept with."""
    names = [f"cn{at}" for at in range(1, len(sizes) + 1)]
    app.post_json(
        "/scheduler/v1/compute_nodes",
        [report(one, memory_mb=1024 * size) for one, size in zip(names, sizes, strict=True)],
    )
    body = {"aggregate": {"name": "agg", "availability_zone": "az1"}}
    zone = app.post_json("/compute/v2.1/os-aggregates", body, headers=COMPUTE).json["aggregate"]
    for name in names[::2]:
        act = {"add_host": {"host": name}}
        app.post_json(f"/compute/v2.1/os-aggregates/{zone['id']}/action", act, headers=COMPUTE)
    group = {"server_group": {"name": "apart", "policy": "anti-affinity"}}
    path = "/compute/v2.1/os-server-groups"
    apart = app.post_json(path, group, headers=COMPUTE).json["server_group"]["id"]
    placed = {}
    for at, one in enumerate(asked, 1):
        more = {**one, "instance_group": apart} if "instance_group" in one else dict(one)
        body = {"request_spec": spec(instance(at), **more)}
        answer = app.post_json("/scheduler/v1/select_destinations", body, expect_errors=True)
        if answer.status_int == 200:
            kept = ("availability_zone", "instance_group")
            placed[instance(at)] = {key: more[key] for key in kept if key in more}
    return placed
