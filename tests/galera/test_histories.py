# SPDX-License-Identifier: Apache-2.0
"""All nodes of a cluster have the same history, so caches are valid on each of them."""

import pytest

from placement_sched.db.transaction import Database
from tests.conftest import make_settings

pytestmark = pytest.mark.system


def test_nodes_of_a_cluster_share_one_epoch(galera):
    histories = []
    for node in galera.nodes:
        database = Database(make_settings(node.url("mysql")))
        with database.read():
            histories.append(database.history)
        database.dispose()
    assert len(histories) > 1
    assert set(histories) == {
        ("wsrep_cluster_state_uuid", galera.nodes[0].status("cluster_state_uuid"))
    }
