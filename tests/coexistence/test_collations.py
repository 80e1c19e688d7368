# SPDX-License-Identifier: Apache-2.0
"""Both services on a database with a table in another collation."""

from contextlib import closing
from functools import partial
from uuid import uuid4

import pytest
from sqlalchemy import Connection

from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.operations.adopt import adopt
from tests.coexistence.conftest import OpenStackPlacement, build_peer_url
from tests.coexistence.sent_requests import (
    build_claim_request,
    build_provider_requests,
    build_request,
)
from tests.conftest import make_settings
from tests.differential.exchange import Request
from tests.differential.sides import OpenStackPlacementPeer, OwnPlacement
from tests.support.empty_databases import empty_database

pytestmark = pytest.mark.system

#: The default collation of newer releases of MariaDB for the character set of older releases, and
#: a collation that MySQL has.
CONVERTED_TABLE_COLLATIONS = {True: "utf8mb3_uca1400_ai_ci", False: "utf8mb3_unicode_ci"}
CONVERTED_TABLES = (
    "consumer_types",
    "placement_aggregates",
    "projects",
    "resource_classes",
    "resource_providers",
    "traits",
    "users",
)
AGGREGATE_UUID = "a0000000-0000-4000-8000-00000000000a"


def build_write_requests(provider: str) -> list[Request]:
    parts = {
        "inventories": {"VCPU": {"total": 8}},
        "traits": ["CUSTOM_A"],
        "aggregates": [AGGREGATE_UUID],
    }
    return [
        build_request("PUT", "/traits/CUSTOM_A"),
        *build_provider_requests(provider, provider, **parts),
    ]


def build_claim_and_read_requests(provider: str) -> list[Request]:
    consumer = str(uuid4())
    targets = [
        "/allocation_candidates?resources=VCPU:1&required=CUSTOM_A",
        f"/allocation_candidates?resources=VCPU:1&member_of={AGGREGATE_UUID}",
        "/resource_providers?required=CUSTOM_A",
        f"/allocations/{consumer}",
        "/usages?project_id=project",
        f"/resource_providers/{provider}/allocations",
    ]
    claim = build_claim_request(consumer, {provider: {"VCPU": 1}})
    return [claim, *(build_request("GET", target) for target in targets)]


def test_both_services_accept_requests_with_any_table_in_another_collation(tmp_path):
    with empty_database("mysql", tmp_path, "CHARACTER SET utf8mb3") as url:
        OpenStackPlacement(url).run_placement_manage("db", "sync")
        database = Database(make_settings(url))
        adopt(database, utcnow)
        collation = CONVERTED_TABLE_COLLATIONS[
            getattr(database.writer.dialect, "is_mariadb", False)
        ]
        with closing(OpenStackPlacementPeer(url, peer=build_peer_url(url))) as theirs:
            # The collations of each pair of tables differ at some time.
            for table in CONVERTED_TABLES:
                character_set = f"CHARACTER SET utf8mb3 COLLATE {collation}"
                convert = f"ALTER TABLE {table} CONVERT TO {character_set}"
                database.write(partial(Connection.exec_driver_sql, statement=convert))
                with closing(OwnPlacement(url)) as ours:
                    check_services_accept_requests(table, theirs, ours)
        database.dispose()


def check_services_accept_requests(
    table: str, theirs: OpenStackPlacementPeer, ours: OwnPlacement
) -> None:
    provider = str(uuid4())
    sent = [(theirs, request) for request in build_write_requests(provider)]
    for side in (theirs, ours):
        sent += [(side, request) for request in build_claim_and_read_requests(provider)]
    for side, request in sent:
        reply = side.send_request(request)
        assert reply.status in {200, 201, 204}, (table, side, request, reply)
