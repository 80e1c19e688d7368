# SPDX-License-Identifier: Apache-2.0
"""Commands and reports of hosts keep the rows of nova in an adopted database."""

import shutil
from contextlib import closing

import pytest
from sqlalchemy import select
from webtest import TestApp

from placement_sched.app import create_app
from placement_sched.cli.main import main
from placement_sched.db.tables import (
    allocations,
    consumers,
    inventories,
    placement_aggregates,
    resource_provider_aggregates,
    resource_provider_traits,
    resource_providers,
)
from placement_sched.db.transaction import Database
from tests.coexistence.conftest import OpenStackPlacement, build_peer_url
from tests.coexistence.sent_requests import (
    build_claim_request,
    build_provider_requests,
    build_request,
)
from tests.conftest import make_settings
from tests.differential.sides import OpenStackPlacementPeer
from tests.support.reports import build_report, node_uuid
from tests.support.versions import PEER_LATEST_HEADERS

pytestmark = pytest.mark.system

HOST_NUMBERS = (1, 2)
#: Number of instances of each host. Their allocations have no consumer type, as nova's.
INSTANCES_PER_HOST = 3
ADMIN_HEADERS = {"X-Auth-Token": "admin", **PEER_LATEST_HEADERS}
#: A trait and an aggregate that nova or its operators have set.
LICENSED_TRAIT, AGGREGATE_UUID = "CUSTOM_LICENSED", "cccccccc-0000-4000-8000-000000000001"


PLACEMENT_TABLES = (
    allocations,
    consumers,
    inventories,
    placement_aggregates,
    resource_provider_aggregates,
    resource_provider_traits,
    resource_providers,
)


def build_instance_uuid(number):
    return f"bbbbbbbb-0000-4000-8000-{number:012}"


@pytest.fixture(scope="module")
def peer_database_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("theirs") / "placement.db"
    adopted_database_url = f"sqlite:///{path}"
    OpenStackPlacement(adopted_database_url).run_placement_manage("db", "sync")
    with closing(OpenStackPlacementPeer(build_peer_url(adopted_database_url))) as peer:
        for host in HOST_NUMBERS:
            _fill_database_by_peer(peer, host)
    return path


@pytest.fixture
def adopted_database_url(peer_database_file, tmp_path):
    return f"sqlite:///{shutil.copy(peer_database_file, tmp_path)}"


@pytest.fixture
def adopted_app(adopted_database_url, monkeypatch, capsys):
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", adopted_database_url)
    assert main(["db", "sync"]) == 1
    assert "placement-sched db adopt" in capsys.readouterr().err
    assert main(["db", "adopt", "--yes"]) == 0
    capsys.readouterr()
    with closing(create_app(make_settings(adopted_database_url))) as application:
        yield TestApp(application, extra_environ={"HTTP_X_AUTH_TOKEN": "admin"})


def report_hosts(app):
    reports = [build_report(host, inventories=False) for host in HOST_NUMBERS]
    app.post_json("/scheduler/v1/compute_nodes", reports)


def _fill_database_by_peer(peer, host):
    uuid = node_uuid(host)
    # The last host is disabled in nova.
    disabled = ["COMPUTE_STATUS_DISABLED"] if host == HOST_NUMBERS[-1] else []
    requests = [
        build_request("PUT", f"/traits/{LICENSED_TRAIT}"),
        *build_provider_requests(
            uuid,
            f"cn{host}",
            inventories={
                "VCPU": {"total": 64, "allocation_ratio": 16.0},
                "MEMORY_MB": {"total": 65536, "reserved": 512},
                "DISK_GB": {"total": 400},
                "PCPU": {"total": 8},
            },
            traits=["HW_CPU_X86_AVX2", LICENSED_TRAIT, *disabled],
            aggregates=[AGGREGATE_UUID],
        ),
    ]
    for number in range(INSTANCES_PER_HOST):
        consumer, amounts = build_instance_uuid(10 * host + number), {"VCPU": 1, "MEMORY_MB": 512}
        owner = ("demo", "demo")
        requests.append(build_claim_request(consumer, {uuid: amounts}, version="1.36", owner=owner))
    for request in requests:
        reply = peer.send_request(request)
        assert reply.status < 300, reply


@pytest.fixture
def database(adopted_database_url):
    database = Database(make_settings(adopted_database_url))
    yield database
    database.dispose()


@pytest.fixture
def read_rows_of_nova(database):
    def read_rows():
        with database.read() as connection:
            return {
                table.name: {
                    tuple(value for key, value in row._mapping.items() if not key.endswith("_at"))
                    for row in connection.execute(select(table))
                }
                for table in PLACEMENT_TABLES
            }

    return read_rows


_ASSOCIATION_TABLES = (
    "placement_aggregates",
    "resource_provider_aggregates",
    "resource_provider_traits",
)


OPERATOR_COMMANDS = (
    "db adopt --yes",
    "db sync",
    "placement audit --delete",
    "placement heal_allocations",
    "placement sync_aggregates",
    "placement sync_aggregates --remove-stale",
    "placement sync_traits",
    "policy apply",
)


def test_commands_change_no_rows_that_nova_wrote(adopted_app, read_rows_of_nova):
    report_hosts(adopted_app)
    body = {"aggregate": {"name": "ours"}}
    created = adopted_app.post_json("/compute/v2.1/os-aggregates", body)
    action = f"/compute/v2.1/os-aggregates/{created.json['aggregate']['id']}/action"
    adopted_app.post_json(action, {"add_host": {"host": "cn1"}})
    adopted_app.post_json(
        action, {"set_metadata": {"metadata": {f"trait:{LICENSED_TRAIT}": "required"}}}
    )
    before = read_rows_of_nova()
    for command in OPERATOR_COMMANDS:
        main(command.split())
        assert read_rows_of_nova() == before, command


def test_report_without_inventories_changes_no_rows_that_nova_wrote(adopted_app, read_rows_of_nova):
    before = read_rows_of_nova()
    adopted_app.post_json(
        "/scheduler/v1/compute_nodes",
        [build_report(1, inventories=False, vcpus=1), build_report(2, inventories=False)],
    )
    assert read_rows_of_nova() == before


def test_report_with_inventories_changes_only_inventories_of_reported_classes(
    adopted_app, read_rows_of_nova
):
    before = read_rows_of_nova()
    report = build_report(1, memory_mb=131072)
    del report["local_gb"]
    adopted_app.post_json("/scheduler/v1/compute_nodes", [report])
    after = read_rows_of_nova()
    for name in ("allocations", "consumers", *_ASSOCIATION_TABLES):
        assert after[name] == before[name]
    target = f"/placement/resource_providers/{node_uuid(1)}/inventories"
    inventories = adopted_app.get(target, headers=ADMIN_HEADERS).json["inventories"]
    assert {name: inventory["total"] for name, inventory in inventories.items()} == {
        "VCPU": 8,
        "MEMORY_MB": 131072,
        "PCPU": 8,
    }
    assert inventories["VCPU"]["allocation_ratio"] == 4.0
    assert inventories["MEMORY_MB"]["reserved"] == 0
