# SPDX-License-Identifier: Apache-2.0
"""A cloud in nova and in the scheduler, and commands that move instances."""

import os
from contextlib import contextmanager
from pathlib import Path

import pytest

from placement_sched.extensions.what_if import plan_runs
from tests.cli.conftest import copy_filled_database
from tests.extensions.what_if.compute_service import run_nova
from tests.extensions.what_if.plan_moves import execute_move, read_host_of_instance
from tests.support import program
from tests.support.scheduling import make_flavor, make_report, make_spec, make_uuid, select_hosts
from tests.support.servers import build_environment, wait_until

#: Six instances on cn7. The other hosts have space for them.
INSTANCES = [make_uuid(number) for number in range(1, 7)]


@pytest.fixture
def nova():
    with run_nova() as nova:
        for host in ("cn7", "cn8", "cn9"):
            nova.add_service(host)
        yield nova


@pytest.fixture(scope="module")
def sqlite_template(sqlite_template, tmp_path_factory):
    """Three hosts with instances on cn7."""
    return copy_filled_database(sqlite_template, tmp_path_factory.mktemp("cloud"), add_instances)


def add_instances(app):
    app.post_json("/scheduler/v1/compute_nodes", [make_report(f"cn{n}") for n in (7, 8, 9)])
    select_hosts(
        app, make_spec(*INSTANCES, flavor=make_flavor(memory_mb=4096), force_hosts=["cn7"])
    )


@pytest.fixture
def cloud(sqlite_app, nova):
    """A cloud whose instances nova has, too."""
    for uuid in INSTANCES:
        nova.add_server(uuid, "cn7")

    def record_arrival(uuid: str, source: str, target: str) -> None:
        execute_move(sqlite_app, {"instance": uuid, "from": source, "to": target})

    nova.arrived = record_arrival
    return sqlite_app


@pytest.fixture
def run_nova_cli(cloud, nova, monkeypatch, run_cli):
    """Return a function that runs a command on the cloud without long pauses."""
    monkeypatch.setattr(plan_runs, "POLL_SECONDS", 0.01)
    return lambda *arguments: run_cli(*arguments, "--nova-url", nova.url)


def read_plan_run(app) -> dict:
    (run, *_) = app.get("/scheduler/v1/plan_runs").json["plan_runs"]
    return app.get(f"/scheduler/v1/plan_runs/{run['uuid']}").json


def find_hosts_of_instances(app) -> set[str]:
    return {read_host_of_instance(app, uuid) for uuid in INSTANCES}


def list_move_states(run) -> list[str]:
    return [move["state"] for move in run["moves"]]


@contextmanager
def start_execution(arguments, nova, sqlite_url, folder):
    """Start a command in a process. The third instance does not arrive."""
    nova.held.add(INSTANCES[2])
    variables = build_environment(OS_PLACEMENT_DATABASE__CONNECTION=sqlite_url)
    arguments = [*arguments, "--nova-url", nova.url]
    with (folder / "out").open("w") as out, Path(os.devnull).open() as stdin:
        streams = [stdin, out, out]
        process = program.start_program(arguments, cwd=folder, env=variables, streams=streams)
        assert wait_until(lambda: nova.count_migrations(INSTANCES[2]), 240)
        yield process
        process.kill()
