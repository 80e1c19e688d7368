# SPDX-License-Identifier: Apache-2.0
"""Comparison of names by the two services on each database, as the guide documents it."""

import pytest

from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.operations.adopt import adopt
from tests.coexistence.conftest import OpenStackPlacement, build_peer_url
from tests.conftest import make_settings
from tests.differential.exchange import Request
from tests.differential.sides import OpenStackPlacementPeer, OwnPlacement
from tests.support.versions import PEER_LATEST

pytestmark = pytest.mark.system

PROVIDER_UUID = "5cbe600a-0000-4000-8000-000000000001"
SETUP_REQUESTS = [
    Request("PUT", "/traits/CUSTOM_A", PEER_LATEST),
    Request("PUT", "/resource_classes/CUSTOM_A", PEER_LATEST),
    Request("POST", "/resource_providers", PEER_LATEST, {"name": "Host", "uuid": PROVIDER_UUID}),
]
#: Queries with a name in another case or with a blank at its end, and the databases whose rows then
#: match on the peer.
MATCHING_DATABASES_BY_QUERY = {
    "/traits?name=in:custom_a": {"mariadb", "mysql"},
    "/traits?name=in:CUSTOM_A%20": {"mariadb"},
    "/traits?name=startswith:cus": {"sqlite", "mariadb", "mysql"},
    "/resource_providers?name=host": {"mariadb", "mysql"},
    "/resource_providers?name=Host%20": {"mariadb"},
    "/traits/custom_a": set(),
    "/resource_classes/custom_a": set(),
    "/resource_providers?required=custom_a": set(),
    "/allocation_candidates?resources=custom_a:1": set(),
}


@pytest.fixture
def both_services_on_a_kind(empty_db_url):
    OpenStackPlacement(empty_db_url).run_placement_manage("db", "sync")
    database = Database(make_settings(empty_db_url))
    adopt(database, utcnow)
    dialect = database.writer.dialect
    database.dispose()
    ours = OwnPlacement(empty_db_url)
    for request in SETUP_REQUESTS:
        assert ours.send_request(request).status in {200, 201}
    theirs = OpenStackPlacementPeer(empty_db_url, peer=build_peer_url(empty_db_url))
    yield ours, theirs, "mariadb" if getattr(dialect, "is_mariadb", False) else dialect.name
    theirs.close()
    ours.close()


def is_name_found(side, target):
    reply = side.send_request(Request("GET", target, PEER_LATEST))
    return reply.status in {200, 204} and (not reply.body or any(reply.document.values()))


def test_only_openstack_placement_matches_names_in_another_case(both_services_on_a_kind):
    ours, theirs, kind = both_services_on_a_kind
    for target, databases in MATCHING_DATABASES_BY_QUERY.items():
        assert not is_name_found(ours, target), target
        assert is_name_found(theirs, target) == (kind in databases), target
