# SPDX-License-Identifier: Apache-2.0
"""Lists of providers, links and uuids. ``gabbits`` has the other cases."""

from uuid import uuid4

import pytest

from placement_sched.model.provider import Inventory
from tests.api.placement.provider_requests import PROVIDERS_PATH
from tests.support.providers import make_providers
from tests.support.statements import record_statements
from tests.support.versions import LATEST_HEADERS

QUERY_WITH_EVERY_FILTER = (
    f"name=a&uuid={uuid4()}&in_tree={uuid4()}&member_of={uuid4()}&member_of=!{uuid4()}"
    "&resources=VCPU:1,MEMORY_MB:1&required=in:HW_CPU_X86_AVX,HW_CPU_X86_AVX2"
    "&required=!HW_CPU_X86_SSE"
)


def count_sql_statements_of_provider_list(app, query):
    """Return the number of statements of a list of providers."""
    with record_statements(app.app.services.database) as seen:
        app.get(f"{PROVIDERS_PATH}?{query}", headers=LATEST_HEADERS)
    return len(seen)


@pytest.mark.all_databases
def test_sql_statement_count_does_not_grow_with_providers(app):
    stock = [Inventory(resource_class="VCPU", total=8)]
    make_providers(app.app.services.database, [stock])
    app.get(PROVIDERS_PATH)  # the first request of a process prepares the database
    few = [
        count_sql_statements_of_provider_list(app, query) for query in ("", QUERY_WITH_EVERY_FILTER)
    ]
    make_providers(app.app.services.database, [stock] * 60)
    assert [
        count_sql_statements_of_provider_list(app, query) for query in ("", QUERY_WITH_EVERY_FILTER)
    ] == few
    assert few[0] == 1


def test_every_provider_path_accepts_a_uuid_in_any_format(app):
    [uuid] = make_providers(app.app.services.database, [[]])
    capitals = f"{PROVIDERS_PATH}/{uuid.upper()}"
    stock = {"resource_class": "VCPU", "total": 1}
    created = app.post_json(f"{capitals}/inventories", stock, headers=LATEST_HEADERS, status=201)
    assert created.headers["Location"].endswith(f"{PROVIDERS_PATH}/{uuid}/inventories/VCPU")
    for rest in ("", *("/inventories", "/usages", "/aggregates", "/traits", "/allocations")):
        plain = app.get(f"{PROVIDERS_PATH}/{uuid}{rest}", headers=LATEST_HEADERS)
        for spelling in (uuid.upper(), uuid.replace("-", ""), f"urn:uuid:{uuid}"):
            assert (
                app.get(f"{PROVIDERS_PATH}/{spelling}{rest}", headers=LATEST_HEADERS).json
                == plain.json
            )
    body = {"resource_provider_generation": 1, "traits": ["HW_CPU_X86_AVX"]}
    app.put_json(f"{capitals}/traits", body, headers=LATEST_HEADERS)
    for name in ("uuid", "in_tree"):
        listed = app.get(f"{PROVIDERS_PATH}?{name}={uuid.upper()}", headers=LATEST_HEADERS)
        assert [provider["uuid"] for provider in listed.json["resource_providers"]] == [uuid]
    app.delete(capitals, headers=LATEST_HEADERS, status=204)


def test_parent_uuid_can_be_in_any_format(app):
    parent, other = make_providers(app.app.services.database, [[], []])
    for spelling in (parent.upper(), parent.replace("-", "")):
        body = {"name": f"below {spelling}", "parent_provider_uuid": spelling}
        assert (
            app.post_json(PROVIDERS_PATH, body, headers=LATEST_HEADERS).json["parent_provider_uuid"]
            == parent
        )
        body = {"name": "moved", "parent_provider_uuid": spelling}
        moved = app.put_json(f"{PROVIDERS_PATH}/{other.upper()}", body, headers=LATEST_HEADERS)
        assert moved.json["parent_provider_uuid"] == parent
    itself = {"name": "loop", "parent_provider_uuid": parent.upper()}
    app.put_json(f"{PROVIDERS_PATH}/{parent}", itself, headers=LATEST_HEADERS, status=400)
    own = str(uuid4())
    body = {"name": "own", "uuid": own, "parent_provider_uuid": own.upper()}
    app.post_json(PROVIDERS_PATH, body, headers=LATEST_HEADERS, status=400)


def test_provider_can_be_created_shown_and_deleted_in_every_version(sqlite_app):
    for minor in range(40):
        headers = {"OpenStack-API-Version": f"placement 1.{minor}"}
        response = sqlite_app.post_json(PROVIDERS_PATH, {"name": "host"}, headers=headers)
        assert response.status_code == (200 if minor >= 20 else 201), minor
        path = response.headers["Location"]
        shown = sqlite_app.get(path, headers=headers)
        assert ("root_provider_uuid" in shown.json) == (minor >= 14), minor
        assert ("Last-Modified" in shown.headers) == (minor >= 15), minor
        assert len(shown.json["links"]) == 3 + (minor >= 1) + (minor >= 6) + (minor >= 11), minor
        sqlite_app.delete(path, headers=headers, status=204)
        sqlite_app.get(path, headers=headers, status=404)
