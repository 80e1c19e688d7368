# SPDX-License-Identifier: Apache-2.0
"""Clouds for plans of moves."""

import pytest

from placement_sched.model.clock import utcnow
from placement_sched.model.instance import NovaCell
from placement_sched.store.compute import cells
from tests.support.clouds import uuid_of
from tests.support.scheduling import make_flavor, make_report, make_spec, make_uuid, select_hosts
from tests.support.versions import LATEST_HEADERS

MB_PER_GB = 1024


@pytest.fixture
def cloud(app):
    """Three hosts with 8 GB. Two instances with 3 GB are on cn1."""
    names = ("cn1", "cn2", "cn3")
    app.post_json(
        "/scheduler/v1/compute_nodes", [make_report(name, memory_mb=8192) for name in names]
    )
    for at in (1, 2):
        select_hosts(
            app, make_spec(make_uuid(at), flavor=make_flavor(memory_mb=3072), force_hosts=["cn1"])
        )
    return app


def make_filled_hosts(app, free, *placed):
    """Report hosts with GB of memory, and place instances with GB on hosts."""
    reports = [
        make_report(name, memory_mb=size * MB_PER_GB, vcpus=60) for name, size in free.items()
    ]
    app.post_json("/scheduler/v1/compute_nodes", reports)
    for number, (host, size) in enumerate(placed, 1):
        request = make_spec(
            make_uuid(number), flavor=make_flavor(memory_mb=size * MB_PER_GB, root_gb=1)
        )
        select_hosts(app, {**request, "force_hosts": [host]})


def build_request_with_memory(size):
    return make_spec(flavor=make_flavor(memory_mb=size * MB_PER_GB, root_gb=1))


def record_state(app, number, vm_state, task_state=None):
    """Record the state of an instance of the cloud, as nova's sync does."""
    path = f"/scheduler/v1/instances/{make_uuid(number)}"
    record = app.get(path).json
    keys = ("host", "node", "project_id", "user_id", "flavor")
    states = {"vm_state": vm_state, "task_state": task_state}
    app.put_json(path, {**{key: record[key] for key in keys}, **states})


def record_nova_cell(app):
    """Record a cell, as the sync of nova's databases does."""
    cell = NovaCell(uuid=make_uuid(90), name="cell1")
    write = app.app.services.database.write
    write(lambda connection: cells.put(connection, [cell], utcnow()))


def add_container(app, host, uuid, consumer_type="CONTAINER"):
    """Allocate a virtual CPU of a host for a consumer that is no instance."""
    body = {
        "allocations": {uuid_of(host): {"resources": {"VCPU": 1}}},
        "project_id": "p2",
        "user_id": "u",
        "consumer_generation": None,
        "consumer_type": consumer_type,
    }
    app.put_json(f"/placement/allocations/{uuid}", body, headers=LATEST_HEADERS)
