# SPDX-License-Identifier: Apache-2.0
"""Scratch transactions leave no rows, block no other transaction, and have a deadline."""

import pytest

from placement_sched.db.transaction import ScratchTransaction
from placement_sched.errors import Unavailable
from placement_sched.scheduler.simulation import read_changes
from placement_sched.store.compute import compute_nodes
from tests.support.scheduling import (
    explain_request,
    make_flavor,
    make_report,
    make_spec,
    make_uuid,
    select_hosts,
)
from tests.support.simulations import cloud as cloud  # noqa: PLC0414 - a fixture
from tests.support.simulations import dump_tables

CHANGES_OF_EVERY_KIND = [
    {"drain": ["cn1"]},
    {"add": {"like": "cn2", "count": 2}},
    {"inventory": {"host": "cn3", "resource_class": "VCPU", "total": 64}},
    {"aggregate": {"name": "gpu", "add_hosts": ["cn1"], "metadata": {"note": "x"}}},
    {"remove": ["cn2"]},
]


@pytest.mark.all_databases
def test_simulation_of_changes_leaves_no_rows_in_the_database(cloud):
    select_hosts(cloud, make_spec(make_uuid(1)))
    before = dump_tables(cloud)
    assert (
        explain_request(cloud, make_spec(), changes=CHANGES_OF_EVERY_KIND)["outcome"] == "selected"
    )
    assert dump_tables(cloud) == before


def test_simulation_of_changes_is_invisible_and_blocks_no_writes(cloud):
    services = cloud.app.services
    before = dump_tables(cloud)

    def change_hosts_and_read_host_names(simulation):
        assert dump_tables(cloud) == before
        # Another request claims on a host that the simulation does not write to.
        claimed = select_hosts(cloud, make_spec(make_uuid(7), force_hosts=["cn3"]))
        assert claimed["selections"][0][0]["service_host"] == "cn3"
        cloud.put_json(
            f"/scheduler/v1/compute_nodes/{make_report('cn3')['uuid']}",
            {
                key: value
                for key, value in make_report("cn3", memory_mb=32768).items()
                if key != "uuid"
            },
        )
        simulation.source.check()
        names = sorted(compute_nodes.list_names(simulation.source.connection))
        simulation.source.until = 0.0
        with pytest.raises(Unavailable, match="what_if_timeout"), simulation.source.read():
            pytest.fail("the transaction has expired")
        return names

    changes = read_changes(CHANGES_OF_EVERY_KIND[:2])
    assert services.scheduler.simulate(changes, change_hosts_and_read_host_names) == [
        "cn1",
        "cn2",
        "cn2+1",
        "cn2+2",
        "cn3",
    ]


def test_slow_simulation_is_stopped_between_instances(cloud, monkeypatch):
    checks = []
    check = ScratchTransaction.check

    def expire_at_check_20(trial):
        checks.append(trial)
        if len(checks) == 20:
            trial.until = 0.0
        check(trial)

    monkeypatch.setattr(ScratchTransaction, "check", expire_at_check_20)
    request_spec = make_spec(
        *map(make_uuid, range(100)), flavor=make_flavor(memory_mb=1, root_gb=0)
    )
    body = {"request_spec": request_spec, "changes": [{"drain": ["cn1"]}]}
    response = cloud.post_json("/scheduler/v1/explain", body, status=503)
    assert "took longer than [scheduler] what_if_timeout" in response.text
    assert len(checks) == 20
