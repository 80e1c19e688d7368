"""``placement audit --invariants`` prints what is violated, and ends with 7 where anything is."""

import json
from datetime import datetime

import pytest
from sqlalchemy import delete, select, update

from placement_sched.db import tables
from tests.cli.repairs import Cloud, uuid
from tests.invariants import break_tables
from tests.placing import spec

pytestmark = pytest.mark.slow


@pytest.fixture
def cloud(app, capsys, database_url, monkeypatch):
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", database_url)
    return with_one_instance(Cloud(app, capsys))


@pytest.fixture
def small(sqlite_app, capsys, sqlite_url, monkeypatch):
    """The cloud on SQLite alone."""
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", sqlite_url)
    return with_one_instance(Cloud(sqlite_app, capsys))


def with_one_instance(made: Cloud) -> Cloud:
    made.record(1)
    made.allocate(1)
    return made


def test_all_invariants_hold_is_0(cloud):
    assert cloud.run("audit", "--invariants") == (0, "all invariants hold\n", "")
    found = cloud.document("audit", "--invariants")
    assert found == {
        "code": 0,
        "checked": {
            "providers": 2,
            "inventories": 6,
            "allocations": 1,
            "consumers": 1,
            "aggregates": 0,
        },
        "violations": [],
        "allowed": [],
        "more_of": [],
    }


def test_violations_are_7_each_in_a_line(cloud, database):
    break_tables(database, delete(tables.consumers))
    expected = f"consumer {uuid(1)} holds allocations and has no record"
    assert cloud.run("audit", "--invariants") == (
        7,
        f"allocation_without_consumer: {expected}\n1 violation of 1 invariant\n",
        "",
    )
    found = cloud.document("audit", "--invariants")
    assert found["violations"] == [{"invariant": "allocation_without_consumer", "detail": expected}]


def test_what_is_allowed_is_shown_and_violates_nothing(small, sqlite_database):
    classes = tables.resource_classes.c
    vcpu = select(classes.id).where(classes.name == "VCPU").scalar_subquery()
    shrunk = update(tables.inventories).where(tables.inventories.c.resource_class_id == vcpu)
    later = datetime.fromisoformat("2038-01-01T12:00:00")
    break_tables(sqlite_database, shrunk.values(total=1, reserved=1, updated_at=later))
    status, printed, _ = small.run("audit", "--invariants", "--verbose")
    assert status == 0
    first, *allowed, last = printed.splitlines()
    assert first == (
        "checked in one snapshot: 2 providers, 6 inventories, 1 allocations, 1 consumers, "
        "0 aggregates"
    )
    assert last == "all invariants hold"
    assert [line.split(" cn1")[0] for line in allowed] == [
        "allowed: over_capacity: 1 VCPU of provider"
    ]
    assert small.document("audit", "--invariants")["allowed"][0]["invariant"] == "over_capacity"


@pytest.mark.parametrize(
    "option",
    [
        ("--delete",),
        ("--resource_provider", "00000000-0000-0000-0000-000000000001"),
        ("--instances-are-all-recorded",),
    ],
    ids=lambda option: option[0],
)
def test_options_of_the_other_audit_are_wrong_input(small, option):
    status, printed, complaint = small.run("audit", "--invariants", *option)
    assert (status, printed) == (127, "")
    assert complaint == f"placement-sched: --invariants and {option[0]} exclude each other\n"


def test_generation_that_fell_since_a_snapshot_is_reported(cloud, database, tmp_path):
    file = tmp_path / "before"
    holds = (0, "all invariants hold\n", "")
    assert cloud.run("audit", "--invariants", "--snapshot", str(file)) == holds
    assert cloud.run("audit", "--invariants", "--since", str(file)) == holds
    cloud.allocate(2)
    assert cloud.run("audit", "--invariants", "--since", str(file)) == holds
    break_tables(database, update(tables.resource_providers).values(generation=0))
    found = cloud.document("audit", "--invariants", "--since", str(file), "--snapshot", str(file))
    assert {one["invariant"] for one in found["violations"]} == {"generation_fell"}
    assert all(" went from " in one["detail"] for one in found["violations"])
    assert found["checked"]["generations"] == 3
    # The new snapshot has the generations as they are now.
    assert cloud.run("audit", "--invariants", "--since", str(file)) == holds


def test_acknowledged_write_that_is_not_there_is_reported(cloud, tmp_path):
    file = tmp_path / "acknowledged"
    held = {one: {"resources": some} for one, some in cloud.held(1).items()}
    file.write_text(json.dumps({"consumer": uuid(1), "allocations": held}) + "\n")
    holds = (0, "all invariants hold\n", "")
    assert cloud.run("audit", "--invariants", "--acknowledged", str(file)) == holds
    with file.open("a") as more:
        more.write(json.dumps({"consumer": uuid(1), "allocations": {}}) + "\n")
    status, printed, _ = cloud.run(
        "audit", "--invariants", "--verbose", "--acknowledged", str(file)
    )
    assert status == 7
    assert "aggregates, 1 acknowledged consumers\n" in printed
    (provider,) = held
    assert (
        f"acknowledged_write_lost: consumer {uuid(1)} holds 1 VCPU of {provider}, and by the "
        "answers to its writes nothing\n"
    ) in printed


@pytest.mark.parametrize("option", ["since", "acknowledged"])
def test_file_that_cannot_be_read_is_wrong_input(small, tmp_path, option):
    file = tmp_path / "file"
    for content, words in ((None, "No such file or directory"), (b"\n\xff", "line 2: not JSON: ")):
        if content is not None:
            file.write_bytes(content)
        status, printed, complaint = small.run("audit", "--invariants", f"--{option}", str(file))
        assert (status, printed) == (127, "")
        assert complaint.startswith(f"placement-sched: {file}: {words}")
        assert complaint.count("\n") == 1


def test_snapshot_that_cannot_be_written_is_wrong_input(small, tmp_path):
    file = tmp_path / "absent" / "file"
    status, printed, complaint = small.run("audit", "--invariants", "--snapshot", str(file))
    assert (status, printed) == (127, "")
    assert complaint == f"placement-sched: {file}: No such file or directory\n"


@pytest.mark.parametrize("option", ["snapshot", "since", "acknowledged"])
def test_files_need_invariants(small, option):
    status, printed, complaint = small.run("audit", f"--{option}", "file")
    assert (status, printed) == (127, "")
    assert complaint == f"placement-sched: --{option} needs --invariants\n"


def test_decision_that_cannot_be_read_is_reported_without_a_traceback(small, sqlite_database):
    asked = {"request_spec": spec(uuid(9))}
    small.app.post_json("/scheduler/v1/select_destinations", asked)
    break_tables(sqlite_database, update(tables.decisions).values(selections="{}"))
    status, printed, complaint = small.run("audit", "--invariants")
    assert (status, complaint) == (7, "")
    assert printed.startswith("decision_unreadable: the selections of decision ")
