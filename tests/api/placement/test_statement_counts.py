# SPDX-License-Identifier: Apache-2.0
"""The number of SQL statements of each write is constant (doc/decisions/0004)."""

from uuid import uuid4

import pytest

from tests.api.placement.provider_requests import build_inventories
from tests.support.allocation_bodies import build_body
from tests.support.statements import record_statements
from tests.support.versions import LATEST, LATEST_HEADERS

pytestmark = pytest.mark.all_databases

TRAIT_NAMES = ["HW_CPU_X86_AVX", "HW_CPU_X86_AVX2", "HW_CPU_X86_SSE"]

#: On SQLite BEGIN is a statement. MySQL and MariaDB do not return the rows that an INSERT added, so
#: the consumers are read again.
CLAIM_STATEMENTS_BY_DIALECT = {"sqlite": 8, "postgresql": 7, "mysql": 9}


@pytest.fixture
def provider_path(app):
    uuid = str(uuid4())
    app.post_json(
        "/placement/resource_providers", {"uuid": uuid, "name": uuid}, headers=LATEST_HEADERS
    )
    return f"/placement/resource_providers/{uuid}"


@pytest.fixture
def database_dialect(app):
    return app.app.services.database.writer.dialect.name


def count_sql_statements(app, method, path, body) -> int:
    with record_statements(app.app.services.database) as seen:
        getattr(app, method)(path, body, headers=LATEST_HEADERS)
    return len(seen)


def build_claim(provider_path, **amounts):
    return build_body(LATEST, {provider_path.rpartition("/")[2]: amounts})


def test_one_and_several_claims_of_new_consumers_take_equally_many_sql_statements(
    app, provider_path, database_dialect
):
    app.put_json(
        f"{provider_path}/inventories",
        build_inventories(0, VCPU=99, DISK_GB=99),
        headers=LATEST_HEADERS,
    )
    # The first claim creates project, user and consumer type.
    first = {str(uuid4()): build_claim(provider_path, VCPU=1)}
    app.post_json("/placement/allocations", first, headers=LATEST_HEADERS)
    claim = build_claim(provider_path, VCPU=1, DISK_GB=1)
    path = f"/placement/allocations/{uuid4()}"
    assert (
        count_sql_statements(app, "put_json", path, claim)
        == CLAIM_STATEMENTS_BY_DIALECT[database_dialect]
    )
    twenty = {str(uuid4()): build_claim(provider_path, VCPU=1, DISK_GB=2) for _ in range(20)}
    assert (
        count_sql_statements(app, "post_json", "/placement/allocations", twenty)
        == CLAIM_STATEMENTS_BY_DIALECT[database_dialect]
    )


def test_inventories_are_replaced_with_four_sql_statements(app, provider_path, database_dialect):
    begin = database_dialect == "sqlite"
    path = f"{provider_path}/inventories"
    assert count_sql_statements(app, "put_json", path, build_inventories(0, VCPU=1)) == 4 + begin
    body = build_inventories(1, VCPU=2, DISK_GB=3, MEMORY_MB=4)
    assert count_sql_statements(app, "put_json", path, body) == 4 + begin


def test_unchanged_inventories_are_not_written(app, provider_path, database_dialect):
    begin = database_dialect == "sqlite"
    path = f"{provider_path}/inventories"
    totals = {"VCPU": 1, "DISK_GB": 2, "MEMORY_MB": 3}
    app.put_json(path, build_inventories(0, **totals), headers=LATEST_HEADERS)
    assert count_sql_statements(app, "put_json", path, build_inventories(1, **totals)) == 3 + begin
    body = build_inventories(2, **{**totals, "VCPU": 9})
    assert count_sql_statements(app, "put_json", path, body) == 4 + begin
    changed, same = (
        count_sql_statements(
            app, "put_json", f"{path}/VCPU", {"resource_provider_generation": n, "total": 7}
        )
        for n in (3, 4)
    )
    assert changed == same + 1


def test_existing_traits_of_a_provider_are_not_read_again(app, provider_path, database_dialect):
    begin, path = database_dialect == "sqlite", f"{provider_path}/traits"

    def count_sql_statements_of_trait_change(generation, names):
        body = {"resource_provider_generation": generation, "traits": names}
        return count_sql_statements(app, "put_json", path, body) - begin

    assert count_sql_statements_of_trait_change(0, TRAIT_NAMES[:2]) == 4
    assert count_sql_statements_of_trait_change(1, TRAIT_NAMES[1:]) == 5
    assert count_sql_statements_of_trait_change(2, TRAIT_NAMES[1:]) == 1
    assert count_sql_statements_of_trait_change(2, TRAIT_NAMES[1:2]) == 3
