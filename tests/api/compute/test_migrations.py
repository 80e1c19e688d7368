# SPDX-License-Identifier: Apache-2.0
"""Lists of migrations: fields by version, filters, pages and rights."""

from datetime import timedelta

import pytest

from tests.api.compute.client import get_error_message
from tests.api.compute.servers import ServerApi
from tests.support.reports import NOW, node_uuid
from tests.support.scheduling import make_uuid
from tests.support.statements import record_statements
from tests.support.versions import LATEST_HEADERS

PATH = "/compute/v2.1/os-migrations"
SMALL, LARGE = {"VCPU": 1, "MEMORY_MB": 512}, {"VCPU": 2, "MEMORY_MB": 1024}
#: The version that nova's calls of placement have. It has no types of consumers.
OF_NOVA = {"OpenStack-API-Version": "placement 1.36"}


class MigrationApi:
    """Instances on hosts ``cn1`` and ``cn2``, and their moves."""

    def __init__(self, servers: ServerApi):
        self.servers = servers
        servers.report_hosts(1, 2)

    def allocate(self, consumer, host, resources, *, project="shop", user="bob", kind=None):
        body = {"allocations": {node_uuid(host): {"resources": resources}}} | {
            "project_id": project, "user_id": user, "consumer_generation": None
        }  # fmt: skip
        headers = OF_NOVA
        if kind is not None:
            body, headers = body | {"consumer_type": kind}, LATEST_HEADERS
        path = f"/placement/allocations/{make_uuid(consumer)}"
        self.servers.app.put_json(path, body, headers=headers, status=204)

    def place(self, number, host=1, resources=SMALL, **fields):
        """Record an instance on a host, with allocations there."""
        self.servers.record_instance(
            number, **{"host": f"cn{host}", "node": f"cn{host}", "vm_state": "active", **fields}
        )
        owner = {"project": fields.get("project_id", "shop"), "user": fields.get("user_id", "bob")}
        self.allocate(number, host, resources, **owner)

    def move(self, number, *, source=1, target=2, resources=SMALL, later=10, **owner):
        """Hand the allocations of an instance to the migration ``100 + number``."""
        self.servers.now = NOW + timedelta(seconds=later)
        self.servers.app.delete(f"/placement/allocations/{make_uuid(number)}", status=204)
        self.allocate(100 + number, source, SMALL, **owner)
        if target:
            self.allocate(number, target, resources, **owner)

    def list(self, query="", **options):
        return self.servers.request("GET", f"{PATH}{query}", **options).json["migrations"]

    def list_instances(self, query="", **options):
        return [row["instance_uuid"] for row in self.list(query, **options)]


@pytest.fixture
def migrations(server_api):
    return MigrationApi(server_api)


@pytest.fixture
def sqlite_migrations(sqlite_server_api):
    return MigrationApi(sqlite_server_api)


@pytest.mark.all_databases
def test_moving_instance_is_a_migration_between_its_hosts(migrations):
    migrations.place(1)
    assert migrations.list() == []
    migrations.move(1)
    (row,) = migrations.list()
    assert isinstance(row.pop("id"), int)
    assert row == {
        "uuid": make_uuid(101),
        "instance_uuid": make_uuid(1),
        "status": "migrating",
        "migration_type": "migration",
        "source_compute": "cn1",
        "source_node": "cn1",
        "dest_compute": "cn2",
        "dest_node": "cn2",
        "dest_host": None,
        "old_instance_type_id": None,
        "new_instance_type_id": None,
        "created_at": "2026-01-01T12:00:10.000000",
        "updated_at": None,
        "project_id": "shop",
        "user_id": "bob",
    }


def test_fields_of_a_migration_depend_on_the_version(sqlite_migrations):
    sqlite_migrations.place(1)
    sqlite_migrations.move(1)
    expected = {
        "created_at", "dest_compute", "dest_host", "dest_node", "id", "instance_uuid",
        "new_instance_type_id", "old_instance_type_id", "source_compute", "source_node", "status",
        "updated_at",
    }  # fmt: skip
    added = {"2.23": {"migration_type"}, "2.59": {"uuid"}, "2.80": {"project_id", "user_id"}}
    for version in ("2.1", "2.22", "2.23", "2.58", "2.59", "2.79", "2.80", "2.100"):
        expected |= added.get(version, set())
        (row,) = sqlite_migrations.list(version=version)
        assert row.keys() == expected, version


@pytest.mark.all_databases
def test_status_and_type_follow_the_state_of_the_instance(migrations):
    cases = [
        ({"task_state": "migrating"}, SMALL, "running", "live-migration"),
        ({"task_state": "resize_prep"}, LARGE, "migrating", "resize"),
        ({"vm_state": "resized", "host": "cn2", "node": "cn2"}, LARGE, "finished", "resize"),
        ({"vm_state": "resized", "host": "cn2", "node": "cn2"}, SMALL, "finished", "migration"),
        ({"vm_state": "resized", "task_state": "resize_reverting"}, LARGE, "reverting", "resize"),
    ]
    for number, (states, resources, *_) in enumerate(cases, start=1):
        user = f"user{number}"
        migrations.place(number, user_id=user)
        migrations.move(number, resources=resources, user=user)
        migrations.servers.record_instance(
            number, **{"host": "cn1", "node": "cn1", "vm_state": "active", **states}, user_id=user
        )
    rows = sorted(migrations.list(), key=lambda row: row["instance_uuid"])
    assert [(row["status"], row["migration_type"]) for row in rows] == [
        tuple(case[2:]) for case in cases
    ]


def test_migration_before_the_selection_of_a_host_has_no_target(sqlite_migrations):
    sqlite_migrations.place(1, task_state="resize_prep")
    sqlite_migrations.move(1, target=None)
    (row,) = sqlite_migrations.list()
    assert (row["instance_uuid"], row["dest_compute"]) == (make_uuid(1), None)


def test_only_consumers_of_a_single_possible_instance_are_migrations(sqlite_migrations):
    api = sqlite_migrations
    # Two instances of the same owner move from the same host.
    for number in (1, 2):
        api.place(number)
        api.move(number)
    # A consumer of another owner, and an instance that lacks its allocations.
    api.allocate(50, 1, SMALL, user="other")
    api.place(3, user_id="eve", project_id="bank")
    api.servers.app.delete(f"/placement/allocations/{make_uuid(3)}", status=204)
    api.allocate(51, 1, SMALL, project="bank", user="eve")
    # A live migration has ended once the instance is recorded on its target.
    api.place(5, 2, user_id="liv", task_state="migrating")
    api.allocate(53, 1, SMALL, user="liv")
    # A container, according to its type.
    api.place(4, user_id="ann")
    api.allocate(52, 1, SMALL, user="ann", kind="CONTAINER")
    api.servers.app.delete(f"/placement/allocations/{make_uuid(4)}", status=204)
    api.allocate(4, 2, SMALL, user="ann")
    assert api.list() == []
    api.servers.app.delete(f"/placement/allocations/{make_uuid(102)}", status=204)
    api.servers.record_instance(2, host="cn2", node="cn2", vm_state="active")
    assert api.list_instances() == [make_uuid(1)]


@pytest.fixture
def three_migrations(sqlite_migrations):
    """Moves of three users, ten seconds apart, the last to ``cn1``."""
    api = sqlite_migrations
    for number, user in enumerate(("ann", "bob", "eve"), start=1):
        source, target = (2, 1) if user == "eve" else (1, 2)
        project = "bank" if user == "eve" else "shop"
        task = "migrating" if user == "bob" else None
        api.place(number, source, user_id=user, project_id=project, task_state=task)
        api.move(
            number, source=source, target=target, later=10 * number, user=user, project=project
        )
    return api


def test_migrations_are_filtered(three_migrations):
    for query, numbers in {
        "": [3, 2, 1],
        "host=cn1": [3, 2, 1],
        "host=cn9": [],
        "source_compute=cn1": [2, 1],
        "host=cn2&source_compute=cn9": [3, 2, 1],
        f"instance_uuid={make_uuid(2).upper()}": [2],
        "status=running": [2],
        "status=migrating": [3, 1],
        "migration_type=live-migration": [2],
        "migration_type=evacuation": [],
        "hidden=0": [3, 2, 1],
        "hidden=true": [],
        "user_id=ann": [1],
        "project_id=shop": [2, 1],
        "project_id=shop&user_id=bob": [2],
        "changes-since=2026-01-01T12:00:20Z": [3, 2],
        "changes-before=2026-01-01T12:00:20Z": [2, 1],
        "changes-since=2026-01-01T12:00:15Z&changes-before=2026-01-01T12:00:25Z": [2],
    }.items():
        expected = [make_uuid(number) for number in numbers]
        assert three_migrations.list_instances(f"?{query}") == expected, query


def test_migrations_are_paged_since_2_59(three_migrations):
    request = three_migrations.servers.request
    path, read = f"{PATH}?limit=2&project_id=shop&limit=1", []
    while path:
        response = request("GET", path).json
        read += [row["uuid"] for row in response["migrations"]]
        (link,) = response.get("migrations_links", [None])
        path = link and link["href"].removeprefix("http://localhost")
    assert read == [make_uuid(102), make_uuid(101)]
    failure = request("GET", f"{PATH}?marker={make_uuid(9)}", status=400)
    assert get_error_message(failure) == f"Marker {make_uuid(9)} could not be found."
    early = request("GET", f"{PATH}?limit=1&marker=x", version="2.58").json
    assert len(early["migrations"]) == 3
    assert early.keys() == {"migrations"}


def test_parameters_are_rejected_before_the_version_that_adds_them(three_migrations):
    for query, since in {
        "bogus=1": None,
        "changes-before=2026-01-01T12:00:00Z": "2.66",
        "user_id=ann": "2.80",
        "project_id=shop": "2.80",
    }.items():
        for version in ("2.58", "2.59", "2.65", "2.66", "2.79", "2.80"):
            minor = int(version.partition(".")[2])
            is_known = minor < 59 or (since and minor >= int(since.partition(".")[2]))
            status = 200 if is_known else 400
            three_migrations.servers.request(
                "GET", f"{PATH}?{query}", version=version, status=status
            )
    # Before 2.59, times are no filter.
    assert len(three_migrations.list("?changes-since=nonsense", version="2.58")) == 3


@pytest.mark.parametrize(
    "query",
    [
        "changes-since=yesterday",
        "limit=-1",
        "changes-since=2026-01-02T00:00:00Z&changes-before=2026-01-01T00:00:00Z",
    ],
)
def test_wrong_values_are_rejected(sqlite_migrations, query):
    sqlite_migrations.servers.request("GET", f"{PATH}?{query}", status=400)


def test_managers_see_the_migrations_of_their_project_without_hosts(three_migrations):
    manager = {"token": "max:shop", "roles": "manager"}
    rows = three_migrations.list("?project_id=shop", **manager)
    assert [row["instance_uuid"] for row in rows] == [make_uuid(2), make_uuid(1)]
    hosts = ("source_compute", "source_node", "dest_compute", "dest_node", "dest_host")
    assert all(row[key] is None for row in rows for key in hosts)
    for query in ("", "?project_id=bank", "?project_id="):
        three_migrations.servers.request("GET", f"{PATH}{query}", status=403, **manager)
    reader = {"token": "max:shop", "roles": "reader"}
    three_migrations.servers.request("GET", f"{PATH}?project_id=shop", status=403, **reader)


def test_number_of_statements_does_not_depend_on_the_number_of_migrations(sqlite_migrations):
    counts = []
    for number in (1, 2, 3):
        sqlite_migrations.place(number, user_id=f"user{number}")
        sqlite_migrations.move(number, user=f"user{number}")
        with record_statements(sqlite_migrations.servers.database) as statements:
            assert len(sqlite_migrations.list()) == number
        counts.append(len(statements))
    assert counts[0] == counts[1] == counts[2]
