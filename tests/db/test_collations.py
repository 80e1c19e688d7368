# SPDX-License-Identifier: Apache-2.0
"""Tables of MariaDB in several collations: searches, claims and adoption.

``tests/coexistence/test_collations.py`` has both services on such a database.
"""

import pytest
from sqlalchemy import text
from webtest import TestApp

from placement_sched.app import create_app
from placement_sched.db.migrate import TRAIN
from placement_sched.db.tables import OWN_TABLES
from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.operations.adopt import adopt
from placement_sched.store.checks import list_orphans
from placement_sched.store.placement.provider_state import read_all_providers
from tests.conftest import make_settings
from tests.support.empty_databases import empty_database
from tests.support.openstack_databases import create_openstack_schema
from tests.support.scheduling import make_flavor, make_report, make_spec
from tests.support.statements import execute_statements
from tests.support.versions import LATEST_HEADERS
from tests.verifier.verify import assert_invariants

pytestmark = pytest.mark.slow

GENERAL_COLLATION, UNICODE_COLLATION, UTF8MB4_COLLATION = (
    "utf8mb3_general_ci",
    "utf8mb3_unicode_ci",
    "utf8mb4_unicode_ci",
)
#: Tables whose texts OpenStack placement never compares with texts of another table.
COLLATIONS_BY_TABLE = {
    **dict.fromkeys(("consumer_types", "projects", "resource_classes", "users"), UNICODE_COLLATION),
    **dict.fromkeys(("placement_aggregates", "resource_providers", "traits"), UTF8MB4_COLLATION),
}
INSTANCE_UUID = "c0000000-0000-4000-8000-000000000001"
AGGREGATE_UUID = "a0000000-0000-4000-8000-00000000000a"


@pytest.fixture
def openstack_database(tmp_path):
    """A database of OpenStack placement in the character set of older releases."""
    with empty_database(
        "mysql", tmp_path, f"CHARACTER SET utf8mb3 COLLATE {GENERAL_COLLATION}"
    ) as url:
        database = Database(make_settings(url))
        yield database
        database.dispose()


def build_collation_clause(collation: str) -> str:
    return f"CHARACTER SET {collation.partition('_')[0]} COLLATE {collation}"


def read_table_collations(database: Database) -> dict[str, str]:
    with database.read() as connection:
        rows = connection.execute(
            text(
                "SELECT table_name, table_collation FROM information_schema.tables "
                "WHERE table_schema = DATABASE()"
            )
        )
        return dict(map(tuple, rows))


def check_candidate_search_and_claim(database: Database) -> None:
    """Report hosts, claim, search with traits and aggregates, explain, and verify."""
    settings = make_settings(database.url.render_as_string(hide_password=False))
    application = create_app(settings)
    app = TestApp(application, extra_environ={"HTTP_X_AUTH_TOKEN": "admin"})
    try:
        app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1"), make_report("cn2")])
        app.put("/placement/traits/CUSTOM_A", headers=LATEST_HEADERS)
        uuid = make_report("cn2")["uuid"]
        path = f"/placement/resource_providers/{uuid}"
        for name, body in (
            ("traits", {"traits": ["CUSTOM_A"]}),
            ("aggregates", {"aggregates": [AGGREGATE_UUID]}),
        ):
            generation = app.get(path, headers=LATEST_HEADERS).json["generation"]
            body |= {"resource_provider_generation": generation}
            app.put_json(f"{path}/{name}", body, headers=LATEST_HEADERS)
        candidates = app.get(
            "/placement/allocation_candidates?resources=VCPU:1&required=CUSTOM_A"
            f"&member_of={AGGREGATE_UUID}",
            headers=LATEST_HEADERS,
        ).json
        assert list(candidates["provider_summaries"]) == [uuid]
        flavor_with_trait = make_flavor(extra_specs={"trait:CUSTOM_A": "required"})
        request = {"request_spec": make_spec(INSTANCE_UUID, flavor=flavor_with_trait)}
        selected = app.post_json("/scheduler/v1/select_destinations", request).json
        assert selected["selections"][0][0]["service_host"] == "cn2"
        held = app.get(f"/placement/allocations/{INSTANCE_UUID}", headers=LATEST_HEADERS).json
        assert list(held["allocations"]) == [uuid]
        usages = app.get("/placement/usages?project_id=p1", headers=LATEST_HEADERS).json
        assert usages["usages"]
    finally:
        application.close()
    assert_invariants(database)
    with database.read() as connection:
        assert list_orphans(connection) == ()
        # The provider cache reads this. A failed read would only disable the cache.
        assert sum(len(rows.providers) for rows in read_all_providers(connection)) == 2


def test_host_is_found_and_claimed_with_tables_of_mixed_collations(openstack_database):
    create_openstack_schema(openstack_database)
    adopt(openstack_database, utcnow)
    conversions = (
        f"ALTER TABLE {table} CONVERT TO {build_collation_clause(collation)}"
        for table, collation in COLLATIONS_BY_TABLE.items()
    )
    execute_statements(openstack_database, *conversions)
    check_candidate_search_and_claim(openstack_database)


@pytest.mark.parametrize("collation", [UNICODE_COLLATION, UTF8MB4_COLLATION])
def test_tables_added_by_adoption_have_the_collation_of_placement(openstack_database, collation):
    create_openstack_schema(openstack_database, TRAIN)
    change_default = (
        f"ALTER DATABASE {openstack_database.url.database} {build_collation_clause(collation)}"
    )
    execute_statements(openstack_database, change_default)
    adopt(openstack_database, utcnow)
    execute_statements(
        openstack_database, "DROP TABLE sched_leases", "DELETE FROM placement_sched_alembic_version"
    )
    adopt(openstack_database, utcnow)
    names = {"consumer_types", *(table.name for table in OWN_TABLES)}
    assert {read_table_collations(openstack_database)[name] for name in names} == {
        GENERAL_COLLATION
    }
    check_candidate_search_and_claim(openstack_database)
