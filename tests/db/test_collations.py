# SPDX-License-Identifier: Apache-2.0
"""Tables of MariaDB in several collations: comparison, searches and adoption."""

import pytest
from sqlalchemy import text
from webtest import TestApp

from placement_sched.app import create_app
from placement_sched.cli.main import main
from placement_sched.db.collations import conversion_of, find_mismatches, texts_of
from placement_sched.db.migrate import TRAIN
from placement_sched.db.tables import OWN_TABLES
from placement_sched.db.transaction import Database
from placement_sched.errors import Unavailable
from placement_sched.model.clock import utcnow
from placement_sched.operations.adopt import adopt, describe_adoption
from placement_sched.operations.upgrade_check import Code, check_upgrade
from placement_sched.store.checks import orphans
from placement_sched.store.placement.provider_state import read_all_providers
from tests.conftest import make_settings
from tests.support.empty_databases import empty_database
from tests.support.openstack_databases import create_openstack_schema
from tests.support.scheduling import flavor, report, spec
from tests.support.versions import LATEST_HEADERS
from tests.verifier.verify import verify

pytestmark = pytest.mark.slow

USUAL = "utf8mb3_general_ci"
OTHERS = ("utf8mb3_unicode_ci", "utf8mb4_unicode_ci")
#: Tables whose texts OpenStack placement never compares with texts of another table.
TABLES = (
    "consumer_types",
    "placement_aggregates",
    "projects",
    "resource_classes",
    "resource_providers",
    "traits",
    "users",
)
INSTANCE = "c0000000-0000-4000-8000-000000000001"
AGGREGATE = "a0000000-0000-4000-8000-00000000000a"
OWN = {table.name for table in OWN_TABLES}


@pytest.fixture
def openstack(tmp_path):
    """A database of OpenStack placement in the character set of older releases."""
    with empty_database("mysql", tmp_path, f"CHARACTER SET utf8mb3 COLLATE {USUAL}") as url:
        database = Database(make_settings(url))
        create_openstack_schema(database)
        yield database
        database.dispose()


@pytest.fixture
def adopted(openstack):
    adopt(openstack, utcnow)
    return openstack


def execute_statements(database: Database, *statements: str) -> None:
    def execute_all(connection):
        for statement in statements:
            connection.execute(text(statement))

    database.write(execute_all)


def convert_table(database: Database, table: str, collation: str) -> None:
    name = collation.partition("_")[0]
    execute_statements(
        database, f"ALTER TABLE {table} CONVERT TO CHARACTER SET {name} COLLATE {collation}"
    )


def change_default(database: Database, collation: str) -> None:
    name = collation.partition("_")[0]
    name_of_database = database.url.database
    execute_statements(
        database, f"ALTER DATABASE {name_of_database} CHARACTER SET {name} COLLATE {collation}"
    )


def mismatches(database: Database):
    with database.read() as connection:
        return find_mismatches(connection)


def collations(database: Database) -> dict[str, str]:
    with database.read() as connection:
        rows = connection.execute(
            text(
                "SELECT table_name, table_collation FROM information_schema.tables "
                "WHERE table_schema = DATABASE()"
            )
        )
        return dict(map(tuple, rows))


def place_instance(database: Database) -> None:
    """Report hosts, claim, search with traits and aggregates, explain, and verify."""
    settings = make_settings(database.url.render_as_string(hide_password=False))
    application = create_app(settings)
    app = TestApp(application, extra_environ={"HTTP_X_AUTH_TOKEN": "admin"})
    try:
        app.post_json("/scheduler/v1/compute_nodes", [report("cn1"), report("cn2")])
        app.put("/placement/traits/CUSTOM_A", headers=LATEST_HEADERS)
        uuid = report("cn2")["uuid"]
        path = f"/placement/resource_providers/{uuid}"
        for name, body in (
            ("traits", {"traits": ["CUSTOM_A"]}),
            ("aggregates", {"aggregates": [AGGREGATE]}),
        ):
            generation = app.get(path, headers=LATEST_HEADERS).json["generation"]
            body |= {"resource_provider_generation": generation}
            app.put_json(f"{path}/{name}", body, headers=LATEST_HEADERS)
        found = app.get(
            "/placement/allocation_candidates?resources=VCPU:1&required=CUSTOM_A"
            f"&member_of={AGGREGATE}",
            headers=LATEST_HEADERS,
        ).json
        assert list(found["provider_summaries"]) == [uuid]
        flavor_with_trait = flavor(extra_specs={"trait:CUSTOM_A": "required"})
        request = {"request_spec": spec(INSTANCE, flavor=flavor_with_trait)}
        selected = app.post_json("/scheduler/v1/select_destinations", request).json
        assert selected["selections"][0][0]["service_host"] == "cn2"
        held = app.get(f"/placement/allocations/{INSTANCE}", headers=LATEST_HEADERS).json
        assert list(held["allocations"]) == [uuid]
        explained = app.post_json(
            "/scheduler/v1/explain", {"request_spec": spec(flavor=flavor_with_trait)}
        ).json
        assert explained["funnel"]
        usages = app.get("/placement/usages?project_id=p1", headers=LATEST_HEADERS).json
        assert usages["usages"]
    finally:
        application.close()
    assert not verify(database).violations
    with database.read() as connection:
        assert orphans(connection) == ()
        # The provider cache reads this. A failed read would only disable the cache.
        assert sum(len(rows.providers) for rows in read_all_providers(connection)) == 2


@pytest.mark.parametrize(
    ("table", "collation"),
    [(table, OTHERS[0]) for table in TABLES] + [("resource_providers", OTHERS[1])],
)
def test_claims_and_searches_work_with_mixed_collations(adopted, table, collation):
    convert_table(adopted, table, collation)
    place_instance(adopted)


@pytest.mark.parametrize("table", ["consumer_types", "resource_providers"])
def test_checks_name_the_table_and_the_conversion_statement(adopted, capsys, table):
    convert_table(adopted, table, OTHERS[0])
    fix = f"ALTER TABLE {table} CONVERT TO CHARACTER SET utf8mb3 COLLATE {USUAL}"
    (mismatch,) = mismatches(adopted)
    assert (mismatch.table, mismatch.collation, mismatch.fix) == (table, OTHERS[0], fix)
    assert not mismatch.is_rejected
    (note,) = [note for note in describe_adoption(adopt(adopted, utcnow)) if "collation" in note]
    code, details = run_upgrade_check(adopted)
    assert code is Code.WARNING
    status, validated = run_config_validate(adopted, capsys)
    assert status == 0
    for words in (note, details, validated):
        assert f"{table} ({OTHERS[0]})" in words
        assert fix in words
    execute_statements(adopted, mismatch.fix)
    assert mismatches(adopted) == ()
    assert run_upgrade_check(adopted) == (Code.SUCCESS, None)


def run_upgrade_check(database: Database):
    settings = make_settings(database.url.render_as_string(hide_password=False))
    result = check_upgrade(database, settings)["Table Collations"]
    return result.code, result.details


def run_config_validate(database: Database, capsys) -> tuple[int, str]:
    url = database.url.render_as_string(hide_password=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", url)
        status = main(["config", "validate", "--database"])
    return status, capsys.readouterr().out


@pytest.mark.parametrize(
    ("table", "collation"),
    [("allocations", OTHERS[0]), ("consumers", OTHERS[0]), ("consumers", "ucs2_general_ci")],
)
def test_adoption_rejects_incompatible_collations_without_changes(
    openstack, capsys, table, collation
):
    convert_table(openstack, table, collation)
    before = collations(openstack)
    with pytest.raises(Unavailable, match="nothing was changed") as rejection:
        adopt(openstack, utcnow)
    fix = f"ALTER TABLE {table} CONVERT TO CHARACTER SET utf8mb3 COLLATE {USUAL}"
    assert fix in rejection.value.detail
    assert collations(openstack) == before
    code, details = run_upgrade_check(openstack)
    assert code is Code.FAILURE
    assert fix in details
    status, validated = run_config_validate(openstack, capsys)
    assert status == 1
    assert fix in validated
    execute_statements(openstack, fix)
    adopt(openstack, utcnow)
    place_instance(openstack)


@pytest.mark.parametrize("collation", OTHERS)
def test_own_tables_have_the_collation_of_the_adopted_tables(openstack, collation):
    change_default(openstack, collation)
    adopt(openstack, utcnow)
    found = collations(openstack)
    assert {found[name] for name in OWN} == {USUAL}
    assert mismatches(openstack) == ()
    place_instance(openstack)


def test_later_own_tables_have_the_collation_of_the_earlier_own_tables(adopted):
    number = "DELETE FROM placement_sched_alembic_version"
    execute_statements(adopted, "DROP TABLE sched_leases", number)
    change_default(adopted, OTHERS[0])
    adopt(adopted, utcnow)
    assert collations(adopted)["sched_leases"] == USUAL


def test_added_consumer_types_table_has_the_schema_collation(tmp_path):
    with empty_database("mysql", tmp_path, f"CHARACTER SET utf8mb3 COLLATE {USUAL}") as url:
        database = Database(make_settings(url))
        create_openstack_schema(database, TRAIN)
        change_default(database, OTHERS[1])
        adopt(database, utcnow)
        assert collations(database)["consumer_types"] == USUAL
        database.dispose()


def test_adopted_database_in_another_collation_works(adopted):
    """Earlier releases left such a database if the default collation had changed."""
    execute_statements(
        adopted, *(conversion_of(table, OTHERS[0]) for table in OWN_TABLES if texts_of(table))
    )
    assert mismatches(adopted) == ()
    place_instance(adopted)


def test_own_table_in_another_collation_is_reported(adopted):
    (table,) = [table for table in OWN_TABLES if table.name == "sched_instances"]
    execute_statements(adopted, conversion_of(table, OTHERS[0]))
    (mismatch,) = mismatches(adopted)
    assert (mismatch.table, mismatch.is_rejected) == ("sched_instances", True)
    assert run_upgrade_check(adopted)[0] is Code.FAILURE
    execute_statements(adopted, mismatch.fix)
    assert mismatches(adopted) == ()
    with adopted.read() as connection:
        created = connection.execute(text("SHOW CREATE TABLE sched_instances")).one()[1]
    assert "`host` varchar(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL" in created
    place_instance(adopted)
