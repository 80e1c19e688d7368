# SPDX-License-Identifier: Apache-2.0
"""The nodes of a cluster share one history: what is remembered stays as a proxy alternates."""

import pytest

from placement_sched.db.transaction import Database
from tests.conftest import make_settings

pytestmark = pytest.mark.system


def test_nodes_of_a_cluster_share_one_epoch(galera):
    found = []
    for node in galera.nodes:
        database = Database(make_settings(node.url("mysql")))
        with database.read():
            found.append(database.history)
        database.dispose()
    assert len(found) > 1
    assert set(found) == {
        ("wsrep_cluster_state_uuid", galera.nodes[0].status("cluster_state_uuid"))
    }
