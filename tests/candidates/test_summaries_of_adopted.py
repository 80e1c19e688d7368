# SPDX-License-Identifier: Apache-2.0
"""Provider summaries of an adopted OpenStack placement database."""

from uuid import uuid4

import pytest

from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.operations.adopt import adopt
from tests.conftest import make_settings
from tests.support.empty_databases import KINDS, empty_database
from tests.support.openstack_databases import create_openstack_schema
from tests.support.versions import LATEST_HEADERS

pytestmark = pytest.mark.all_databases

PROVIDERS = "/placement/resource_providers"


@pytest.fixture(params=KINDS)
def adopted_client(request, tmp_path, make_app):
    """A client of a database with the schema of OpenStack placement."""
    with empty_database(request.param, tmp_path) as url:
        settings = make_settings(url)
        database = Database(settings)
        create_openstack_schema(database)
        adopt(database, utcnow)
        database.dispose()
        yield make_app(settings)


def _create_provider(app, uuid, total, trait):
    app.post_json(PROVIDERS, {"name": "cn1", "uuid": uuid}, headers=LATEST_HEADERS)
    path = f"{PROVIDERS}/{uuid}"
    stock = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": total}}}
    app.put_json(f"{path}/inventories", stock, headers=LATEST_HEADERS)
    carried = {"resource_provider_generation": 1, "traits": [trait]}
    app.put_json(f"{path}/traits", carried, headers=LATEST_HEADERS)


def _read_summary(app, uuid):
    answer = app.get("/placement/allocation_candidates?resources=VCPU:1", headers=LATEST_HEADERS)
    reported = answer.json["provider_summaries"][uuid]
    return reported["resources"]["VCPU"]["capacity"], reported["traits"]


def test_provider_recreated_within_a_second_has_current_summary(adopted_client):
    uuid = str(uuid4())
    for total, trait in ((8, "HW_CPU_X86_AVX"), (4, "HW_CPU_X86_AVX2")):
        _create_provider(adopted_client, uuid, total, trait)
        assert _read_summary(adopted_client, uuid) == (total, [trait])
        adopted_client.delete(f"{PROVIDERS}/{uuid}", headers=LATEST_HEADERS)
