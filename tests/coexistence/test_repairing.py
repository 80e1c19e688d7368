"""What ``audit`` and ``heal_allocations`` leave alone in a database that nova uses, too."""

import json

import pytest
from sqlalchemy import func, select
from webtest import TestApp

from placement_sched.app import create_app
from placement_sched.cli.main import main
from placement_sched.db.tables import allocations
from placement_sched.db.transaction import Database
from tests.coexistence.conftest import OpenStack, peer_url
from tests.coexistence.test_alternating import asked
from tests.conftest import make_settings
from tests.differential.sides import Peer
from tests.reports import a_report, node_uuid

HOSTS = (1, 2)
#: Instances of each host, as nova makes their allocations: without a consumer type.
OF_EACH = 3
ADMIN = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}
FLAVOR = {"name": "small", "vcpus": 1, "memory_mb": 512, "root_gb": 1}


def instance(number):
    return f"bbbbbbbb-0000-4000-8000-{number:012}"


@pytest.fixture
def adopted(empty_url, monkeypatch, capsys):
    """A database that OpenStack placement made, nova's clients filled, and we adopted."""
    OpenStack(empty_url).manage("db", "sync")
    peer = Peer(peer_url(empty_url))
    try:
        for host in HOSTS:
            _fill(peer, host)
    finally:
        peer.close()
    # Only now: the peer would read it as well.
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", empty_url)
    assert main(["db", "sync"]) == 1
    assert "placement-sched db adopt" in capsys.readouterr().err
    assert main(["db", "adopt"]) == 0
    capsys.readouterr()
    application = create_app(make_settings(empty_url))
    app = TestApp(application, extra_environ={"HTTP_X_AUTH_TOKEN": "admin"})
    app.post_json("/scheduler/v1/compute_nodes", [a_report(host) for host in HOSTS])
    yield app
    application.close()


def _fill(peer, host):
    uuid = node_uuid(host)
    total = {"total": 64}
    bodies = [
        ("POST", "/resource_providers", {"uuid": uuid, "name": f"cn{host}"}),
        (
            "PUT",
            f"/resource_providers/{uuid}/inventories",
            {
                "resource_provider_generation": 0,
                "inventories": {"VCPU": total, "MEMORY_MB": {"total": 65536}},
            },
        ),
    ]
    for number in range(OF_EACH):
        held = {
            "allocations": {uuid: {"resources": {"VCPU": 1, "MEMORY_MB": 512}}},
            "project_id": "demo",
            "user_id": "demo",
            "consumer_generation": None,
        }
        bodies.append(("PUT", f"/allocations/{instance(10 * host + number)}", held))
    for method, target, body in bodies:
        reply = peer.ask(asked(method, target, body, version="1.36"))
        assert reply.status < 300, reply


def held(url):
    database = Database(make_settings(url))
    with database.read() as connection:
        number = connection.scalar(select(func.count()).select_from(allocations))
    database.dispose()
    return number


def command(capsys, *arguments):
    status = main(["placement", *arguments, "--format", "json"])
    printed = capsys.readouterr()
    return status, json.loads(printed.out), printed.err


def test_audit_deletes_nothing_of_novas_after_adoption(adopted, empty_url, capsys):
    before = held(empty_url)
    assert before == 2 * len(HOSTS) * OF_EACH
    status, found, told = command(capsys, "audit", "--delete")
    assert (status, found["code"], found["orphaned"], found["deleted"]) == (6, 6, [], 0)
    assert len(found["not_judged"]) == len(HOSTS) * OF_EACH
    assert {one["reason"] for one in found["not_judged"]} == {"adopted_database"}
    assert "not deleted: the allocations of 6 consumers" in told
    assert held(empty_url) == before
    # Nor once some instances are placed by this service, and so are recorded.
    adopted.post_json(
        "/scheduler/v1/select_destinations",
        {"request_spec": {"project_id": "p", "flavor": FLAVOR, "image": None}},
    )
    now = held(empty_url)
    assert now > before
    for arguments in ([], ["--resource_provider", node_uuid(1)]):
        status, found, _ = command(capsys, "audit", "--delete", *arguments)
        assert (status, found["deleted"], held(empty_url)) == (6, 0, now)


def test_heal_makes_nothing_anew_that_nova_may_have_freed(adopted, empty_url, capsys):
    gone = instance(10)
    adopted.put_json(
        f"/scheduler/v1/instances/{gone}",
        {"host": "cn1", "node": "cn1", "project_id": "demo", "user_id": "u", "flavor": FLAVOR},
    )
    # As nova-compute does when the instance is deleted.
    adopted.delete(f"/placement/allocations/{gone}", headers=ADMIN)
    before = held(empty_url)
    status, found, told = command(capsys, "heal_allocations")
    assert (status, found) == (9, {"code": 9, "instances": []})
    assert "--instances-are-all-recorded" in told
    status, found, _ = command(capsys, "heal_allocations", "--dry-run")
    assert (status, [one["uuid"] for one in found["instances"]]) == (4, [gone])
    assert held(empty_url) == before
    status, _, _ = command(capsys, "heal_allocations", "--instances-are-all-recorded")
    assert (status, held(empty_url)) == (0, before + 3)
