# SPDX-License-Identifier: Apache-2.0
"""Both services on a MariaDB database with a table in another collation."""

import pytest
from sqlalchemy import text

from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.operations.adopt import adopt
from tests.coexistence.conftest import OpenStack, peer_url
from tests.conftest import make_settings
from tests.differential.exchange import Request
from tests.differential.sides import Ours, Peer
from tests.support.empty_databases import empty_database
from tests.support.versions import PEER_LATEST

pytestmark = pytest.mark.system

#: The default collation of newer releases of MariaDB for the character set of older releases.
OTHER = "utf8mb3_uca1400_ai_ci"
TABLES = (
    "consumer_types",
    "placement_aggregates",
    "projects",
    "resource_classes",
    "resource_providers",
    "traits",
    "users",
)
PROVIDER = "5cbe600a-0000-4000-8000-000000000001"
CONSUMERS = [f"c0000000-0000-4000-8000-00000000000{number}" for number in range(2)]
AGGREGATE = "a0000000-0000-4000-8000-00000000000a"


def requests(consumer: str) -> list[Request]:
    claim = {
        "allocations": {PROVIDER: {"resources": {"VCPU": 1}}},
        "project_id": "project",
        "user_id": "user",
        "consumer_type": "INSTANCE",
        "consumer_generation": None,
    }
    targets = [
        "/allocation_candidates?resources=VCPU:1&required=CUSTOM_A",
        f"/allocation_candidates?resources=VCPU:1&member_of={AGGREGATE}",
        "/resource_providers?required=CUSTOM_A",
        f"/allocations/{consumer}",
        "/usages?project_id=project",
        f"/resource_providers/{PROVIDER}/allocations",
    ]
    return [
        Request("PUT", f"/allocations/{consumer}", PEER_LATEST, claim),
        *(Request("GET", target, PEER_LATEST) for target in targets),
    ]


@pytest.mark.parametrize("table", TABLES)
def test_both_services_work_with_a_table_in_another_collation(tmp_path, table):
    with empty_database("mysql", tmp_path, "CHARACTER SET utf8mb3") as url:
        OpenStack(url).manage("db", "sync")
        database = Database(make_settings(url))
        adopt(database, utcnow)
        convert = f"ALTER TABLE {table} CONVERT TO CHARACTER SET utf8mb3 COLLATE {OTHER}"
        database.write(lambda connection: connection.execute(text(convert)))
        database.dispose()
        ours, theirs = Ours(url), Peer(url, peer=peer_url(url))
        try:
            create_provider(theirs)
            for consumer, side in zip(CONSUMERS, (theirs, ours), strict=True):
                for request in requests(consumer):
                    reply = side.get_answer(request)
                    assert reply.status in {200, 204}, (side, request, reply)
        finally:
            theirs.close()
            ours.close()


def create_provider(side) -> None:
    path = f"/resource_providers/{PROVIDER}"
    for method, target, body in (
        ("PUT", "/traits/CUSTOM_A", None),
        ("POST", "/resource_providers", {"name": "host", "uuid": PROVIDER}),
        (
            "PUT",
            f"{path}/inventories",
            {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 8}}},
        ),
        ("PUT", f"{path}/traits", {"resource_provider_generation": 1, "traits": ["CUSTOM_A"]}),
        (
            "PUT",
            f"{path}/aggregates",
            {"resource_provider_generation": 2, "aggregates": [AGGREGATE]},
        ),
    ):
        assert side.get_answer(Request(method, target, PEER_LATEST, body)).status in {200, 201}
