# SPDX-License-Identifier: Apache-2.0
"""``status upgrade check``: the return codes and the table of placement-status."""

import json
from datetime import timedelta

import pytest
from sqlalchemy import delete, insert

from placement_sched.cli.main import main, main_of_status
from placement_sched.db.migrate import TRAIN, VERSION_TABLE
from placement_sched.db.tables import allocations, resource_providers, traits
from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.model.instance import NovaCell
from placement_sched.operations.checks import Code, check_upgrade
from placement_sched.store.compute import cells
from tests.conftest import make_settings
from tests.support.empty_databases import empty_database
from tests.support.openstack_databases import create_openstack_schema
from tests.support.statements import execute_statements

pytestmark = pytest.mark.slow

POLICY_FILE_CHECK = "Policy File JSON to YAML Migration"
UPGRADE_CHECKS = [
    "Database Schema",
    "Missing Root Provider IDs",
    "Incomplete Consumers",
    "Standard Traits and Resource Classes",
    POLICY_FILE_CHECK,
]


@pytest.fixture
def run_upgrade_check(database, settings):
    """Return a function that returns the code and the details of a check."""

    def get_code_and_details(name: str) -> tuple[Code, str | None]:
        result = check_upgrade(database, settings)[name]
        return result.code, result.details

    return get_code_and_details


def test_synced_database_passes_every_upgrade_check(database, settings):
    results = check_upgrade(database, settings)
    assert [(name, result.code, result.details) for name, result in results.items()] == [
        (name, Code.SUCCESS, None) for name in UPGRADE_CHECKS
    ]


@pytest.mark.all_databases
def test_provider_without_root_is_an_upgrade_failure(database, run_upgrade_check):
    database.write(
        lambda connection: connection.execute(
            insert(resource_providers), {"uuid": "a" * 36, "name": "cn1", "generation": 0}
        )
    )
    code, details = run_upgrade_check("Missing Root Provider IDs")
    assert code is Code.FAILURE
    assert "without a root provider id. There is 1. Run" in details
    assert "placement-manage db online_data_migrations" in details


def test_allocations_without_a_consumer_are_an_upgrade_warning(database, run_upgrade_check):
    rows = [
        {"resource_provider_id": 1, "consumer_id": "c" * 36, "resource_class_id": number, "used": 1}
        for number in (0, 1)
    ]
    database.write(lambda connection: connection.execute(insert(allocations), rows))
    code, details = run_upgrade_check("Incomplete Consumers")
    assert code is Code.WARNING
    assert "consumers that have allocations but no record. There is 1. Run" in details


def test_missing_standard_trait_is_an_upgrade_warning(sqlite_database, sqlite_settings):
    sqlite_database.write(
        lambda connection: connection.execute(
            delete(traits).where(traits.c.name == "HW_CPU_X86_AVX2")
        )
    )
    results = check_upgrade(sqlite_database, sqlite_settings)
    check = results["Standard Traits and Resource Classes"]
    assert check.code is Code.WARNING
    assert check.details.startswith("The database lacks 1 standard name of traits")
    assert "HW_CPU_X86_AVX2" in check.details


@pytest.mark.parametrize(
    ("revision", "advice"), [("0018", "CHANGELOG.md names"), ("9999", "Start the newer release")]
)
def test_schema_of_another_release_is_an_upgrade_failure_with_advice(
    sqlite_database, sqlite_settings, revision, advice
):
    execute_statements(sqlite_database, f"UPDATE {VERSION_TABLE} SET version_num = '{revision}'")
    schema, *data, _policy = check_upgrade(sqlite_database, sqlite_settings).values()
    assert schema.code is Code.FAILURE
    assert schema.details.startswith(f"The database schema is at revision {revision} of a ")
    assert advice in schema.details
    assert {result.code for result in data} == {Code.FAILURE}
    assert {result.details.split(",")[0] for result in data} == {"Not checked"}


@pytest.mark.parametrize("revision", [TRAIN, "a082b8bb98d0"])
def test_openstack_schema_is_an_upgrade_failure_with_advice(tmp_path, revision):
    with empty_database("sqlite", tmp_path) as url:
        settings = make_settings(url)
        database = Database(settings)
        create_openstack_schema(database, revision)
        schema = check_upgrade(database, settings)["Database Schema"]
        database.dispose()
    assert schema.code is Code.FAILURE
    assert '"placement-sched db adopt"' in schema.details


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"placement:usages": "rule:admin"}', Code.FAILURE),
        ('"placement:usages": "rule:admin"\n', Code.SUCCESS),
        ("", Code.SUCCESS),
    ],
    ids=["json", "yaml", "empty"],
)
def test_policy_file_with_json_is_an_upgrade_failure(
    sqlite_database, sqlite_url, tmp_path, own_conf, text, code
):
    policy = tmp_path / "rules.yaml"
    policy.write_text(text)
    settings = make_settings(sqlite_url)
    result = check_upgrade(sqlite_database, settings)[POLICY_FILE_CHECK]
    assert result.code is Code.SUCCESS
    settings.conf.set_override("policy_file", str(policy), "oslo_policy")
    result = check_upgrade(sqlite_database, settings)[POLICY_FILE_CHECK]
    assert result.code is code
    assert (str(policy) in (result.details or "")) is (code is Code.FAILURE)


def test_json_policy_file_in_the_home_folder_is_an_upgrade_failure(
    sqlite_database, sqlite_url, tmp_path, own_conf, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "policy.json").write_text("{}")
    settings = make_settings(sqlite_url)
    conf = settings.conf
    conf(
        args=[], project="placement_sched", default_config_files=[str(create_empty_conf(tmp_path))]
    )
    conf.set_override("connection", sqlite_url, "placement_database")
    result = check_upgrade(sqlite_database, settings)[POLICY_FILE_CHECK]
    assert result.code is Code.FAILURE
    assert "policy.json" in result.details


def create_empty_conf(folder):
    path = folder / "placement_sched.conf"
    path.touch()
    return path


@pytest.mark.all_databases
def test_outdated_sync_of_nova_is_an_upgrade_warning(database, settings):
    settings = settings.with_overrides(
        {"api_database.connection": "mysql+pymysql://nova@db/nova_api"}
    )
    cell = NovaCell(uuid="c0000000-0000-0000-0000-000000000001", name="one")

    def check_nova_sync():
        result = check_upgrade(database, settings)["Reading of Nova"]
        return result.code, result.details

    def record_sync_of_nova(seconds):
        def write_rows(connection):
            cells.put(connection, [cell], utcnow())
            cells.record_read(connection, [cell.uuid], utcnow() - timedelta(seconds=seconds))

        database.write(write_rows)

    code, details = check_nova_sync()
    assert (code, "placement-sched nova adopt" in details) == (Code.WARNING, True)
    record_sync_of_nova(0)
    assert check_nova_sync() == (Code.SUCCESS, None)
    record_sync_of_nova(1000)
    code, details = check_nova_sync()
    assert code is Code.WARNING
    assert details.startswith("A cell of nova was last read 10")
    assert "placement-sched nova sync" in details
    database.write(lambda connection: cells.record_failure(connection, cell.uuid, "gone", utcnow()))
    assert check_nova_sync() == (Code.WARNING, "The databases of these cells are unavailable: one.")


def test_upgrade_check_prints_the_table_of_placement_status(sqlite_url, monkeypatch, capsys):
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", sqlite_url)
    assert main(["status", "upgrade", "check"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        "+---------------------------------------------+",
        "| Upgrade Check Results                       |",
        "+---------------------------------------------+",
        "| Check: Database Schema                      |",
    ]
    assert len({len(line) for line in lines}) == 1
    assert [line[9:-1].strip() for line in lines if line.startswith("| Check")] == UPGRADE_CHECKS


def test_upgrade_check_exits_with_1_or_2_by_severity(
    sqlite_url, sqlite_database, monkeypatch, capsys
):
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", sqlite_url)
    sqlite_database.write(
        lambda connection: connection.execute(
            insert(allocations),
            {"resource_provider_id": 1, "consumer_id": "c" * 36, "resource_class_id": 0, "used": 1},
        )
    )
    assert main(["status", "upgrade", "check", "--format", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["code"] == 1
    assert [check["check"] for check in report["checks"]] == UPGRADE_CHECKS
    assert report["checks"][2]["result"] == "Warning"
    sqlite_database.write(
        lambda connection: connection.execute(
            insert(resource_providers), {"uuid": "a" * 36, "name": "cn1", "generation": 0}
        )
    )
    assert main(["status", "upgrade", "check"]) == 2
    printed = capsys.readouterr().out
    assert "| Result: Failure" in printed
    assert all(len(line) <= 73 for line in printed.splitlines())  # oslo.upgradecheck's width


def test_json_of_upgrade_check_has_codes(sqlite_url, monkeypatch, capsys):
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", sqlite_url)
    monkeypatch.setattr("sys.argv", ["placement-sched-status", "upgrade", "check", "--json"])
    assert main_of_status() == 0
    document = json.loads(capsys.readouterr().out)
    assert document["name"] == "Upgrade Check Results"
    checks = [{"check": name, "result": 0, "details": None} for name in UPGRADE_CHECKS]
    assert document["checks"] == checks


def test_upgrade_check_without_a_database_exits_with_255(run_command):
    done = run_command(
        *("status", "upgrade", "check"),
        OS_PLACEMENT_DATABASE__CONNECTION="sqlite:////nonexistent/x.db",
    )
    assert done.returncode == 255
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1


def test_upgrade_check_with_invalid_configuration_exits_with_255(run_command):
    done = run_command("status", "upgrade", "check", OS_PLACEMENT_DATABASE__CONNECTION="nonsense")
    assert done.returncode == 255
    assert "[placement_database] connection" in done.stderr
