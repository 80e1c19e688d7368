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

REQUEST_HEADERS = {"X-Auth-Token": "admin", **LATEST_HEADERS}
ENCODED_EMOJI = "%F0%9F%98%80"
PROVIDER_UUID = "a0000000-0000-4000-8000-000000000001"
CONSUMER_UUID = "c0000000-0000-4000-8000-000000000001"
INVENTORIES_BODY = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 8}}}
ALLOCATIONS_BODY = {
    "allocations": {PROVIDER_UUID: {"resources": {"VCPU": 1}}},
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
            "/placement/resource_providers",
            {"name": "a", "uuid": PROVIDER_UUID},
            headers=REQUEST_HEADERS,
        )
        path = f"/placement/resource_providers/{PROVIDER_UUID}/inventories"
        client.put_json(path, INVENTORIES_BODY, headers=REQUEST_HEADERS)
        yield client
        app.close()


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/placement/resource_providers", {"name": "emoji\N{GRINNING FACE}"}),
        (
            "PUT",
            f"/placement/allocations/{CONSUMER_UUID}",
            {**ALLOCATIONS_BODY, "user_id": "\N{GRINNING FACE}"},
        ),
        ("GET", f"/placement/resource_providers?name={ENCODED_EMOJI}", None),
        ("GET", f"/placement/usages?project_id={ENCODED_EMOJI}", None),
    ],
)
def test_character_outside_the_database_charset_is_rejected(
    limited_charset_app, method, path, body
):
    if body is None:
        response = limited_charset_app.get(path, headers=REQUEST_HEADERS, status=400)
    else:
        send = {"POST": limited_charset_app.post_json, "PUT": limited_charset_app.put_json}[method]
        response = send(path, body, headers=REQUEST_HEADERS, status=400)
    assert (
        "cannot store the character \N{GRINNING FACE} (U+1F600)"
        in response.json["errors"][0]["detail"]
    )
    # The rejected request changed nothing.
    assert (
        limited_charset_app.get(
            f"/placement/allocations/{CONSUMER_UUID}", headers=REQUEST_HEADERS
        ).json["allocations"]
        == {}
    )


def test_character_of_the_database_charset_is_stored(limited_charset_app):
    name = "h\N{LATIN SMALL LETTER U WITH DIAERESIS}t"
    limited_charset_app.post_json(
        "/placement/resource_providers", {"name": name}, headers=REQUEST_HEADERS
    )
    document = limited_charset_app.get(
        "/placement/resource_providers", {"name": name}, headers=REQUEST_HEADERS
    ).json
    assert [provider["name"] for provider in document["resource_providers"]] == [name]
