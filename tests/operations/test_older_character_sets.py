# SPDX-License-Identifier: Apache-2.0
"""Errors of a database whose character set lacks characters."""

import pytest
from webtest import TestApp

from placement_sched.app import create_app
from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.operations.adopt import adopt
from tests.conftest import make_settings
from tests.support.empty_databases import empty_database
from tests.support.openstack_databases import create_openstack_schema
from tests.support.versions import LATEST_HEADERS

pytestmark = pytest.mark.slow

HEADERS = {"X-Auth-Token": "admin", **LATEST_HEADERS}
FACE = "%F0%9F%98%80"
PROVIDER = "a0000000-0000-4000-8000-000000000001"
CONSUMER = "c0000000-0000-4000-8000-000000000001"
INVENTORIES = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 8}}}
CLAIM = {
    "allocations": {PROVIDER: {"resources": {"VCPU": 1}}},
    "project_id": "p",
    "consumer_type": "INSTANCE",
    "consumer_generation": None,
}


@pytest.fixture(
    scope="module",
    params=[
        ("mysql", "CHARACTER SET utf8mb3"),
        ("postgresql", "ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"),
    ],
    ids=["utf8mb3", "latin1"],
)
def limited_charset_app(request, tmp_path_factory):
    kind, options = request.param
    with empty_database(kind, tmp_path_factory.mktemp("older"), options) as url:
        settings = make_settings(url)
        database = Database(settings)
        create_openstack_schema(database)
        adopt(database, utcnow)
        database.dispose()
        app = create_app(settings)
        client = TestApp(app)
        client.post_json(
            "/placement/resource_providers", {"name": "a", "uuid": PROVIDER}, headers=HEADERS
        )
        path = f"/placement/resource_providers/{PROVIDER}/inventories"
        client.put_json(path, INVENTORIES, headers=HEADERS)
        yield client
        app.close()


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/placement/resource_providers", {"name": "emoji\N{GRINNING FACE}"}),
        ("PUT", f"/placement/allocations/{CONSUMER}", {**CLAIM, "user_id": "\N{GRINNING FACE}"}),
        ("GET", f"/placement/resource_providers?name={FACE}", None),
        ("GET", f"/placement/usages?project_id={FACE}", None),
    ],
)
def test_unstorable_character_is_rejected_and_named(limited_charset_app, method, path, body):
    if body is None:
        answer = limited_charset_app.get(path, headers=HEADERS, status=400)
    else:
        send = {"POST": limited_charset_app.post_json, "PUT": limited_charset_app.put_json}[method]
        answer = send(path, body, headers=HEADERS, status=400)
    assert (
        "cannot store the character \N{GRINNING FACE} (U+1F600)"
        in answer.json["errors"][0]["detail"]
    )
    # The rejected request changed nothing.
    assert (
        limited_charset_app.get(f"/placement/allocations/{CONSUMER}", headers=HEADERS).json[
            "allocations"
        ]
        == {}
    )


def test_storable_characters_are_stored(limited_charset_app):
    name = "h\N{LATIN SMALL LETTER U WITH DIAERESIS}t"
    limited_charset_app.post_json("/placement/resource_providers", {"name": name}, headers=HEADERS)
    document = limited_charset_app.get(
        "/placement/resource_providers", {"name": name}, headers=HEADERS
    ).json
    assert [provider["name"] for provider in document["resource_providers"]] == [name]
