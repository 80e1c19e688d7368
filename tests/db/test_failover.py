# SPDX-License-Identifier: Apache-2.0
"""A standby of PostgreSQL takes over that lacks what its primary had committed last."""

import pytest

from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.operations.prepare import sync
from tests.conftest import make_settings
from tests.support.postgresql import run_primary_and_standby
from tests.support.scheduling import report, spec
from tests.support.servers import wait_until

pytestmark = pytest.mark.slow

PLACEMENT = {"OpenStack-API-Version": "placement 1.39"}
COMPUTE = {"OpenStack-API-Version": "compute 2.90"}


@pytest.fixture
def servers():
    with run_primary_and_standby() as servers:
        yield servers


@pytest.fixture
def settings_of(servers):
    """Return a function that gives settings on a prepared database of whichever server writes."""
    primary, standby = servers
    primary.ask("CREATE DATABASE placement")
    url = primary.url("placement", standby)

    def settings_of(*, in_memory):
        settings = make_settings(url, placement__providers_in_memory=in_memory)
        database = Database(settings)
        sync(database, utcnow)
        database.dispose()
        return settings

    return settings_of


def fail_over(primary, standby):
    primary.stop("immediate")
    standby.promote()


def stop_replication(primary, standby):
    """Let the standby receive nothing more, once it has all that there is."""
    there = primary.ask("SELECT pg_current_wal_flush_lsn()")[0]
    assert wait_until(lambda: standby.ask(f"SELECT pg_last_wal_replay_lsn() >= '{there}'")[0])
    standby.ask("ALTER SYSTEM SET primary_conninfo = ''")
    standby.ask("SELECT pg_reload_conf()")
    assert wait_until(lambda: not standby.ask("SELECT pid FROM pg_stat_wal_receiver"))


def wait_until_served(ask):
    """Ask until a server answers that writes, which a client is told to do; return the answer."""
    answers = []

    def served():
        answers.append(ask())
        return answers[-1].status_int != 503

    assert wait_until(served)
    return answers[-1]


class Worker:
    def __init__(self, client):
        self.client = client

    def put(self, provider, total):
        body = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": total}}}
        path = f"/placement/resource_providers/{provider}/inventories"
        answer = wait_until_served(
            lambda: self.client.put_json(path, body, headers=PLACEMENT, expect_errors=True)
        )
        assert answer.status_int == 200, answer.text

    def capacities(self):
        path = "/placement/allocation_candidates?resources=VCPU:1"
        answer = wait_until_served(
            lambda: self.client.get(path, headers=PLACEMENT, expect_errors=True)
        )
        shown = answer.json["provider_summaries"].values()
        return [one["resources"]["VCPU"]["capacity"] for one in shown]

    def make_zone(self, zone, host):
        body = {"aggregate": {"name": zone, "availability_zone": zone}}
        path = "/compute/v2.1/os-aggregates"
        answer = wait_until_served(
            lambda: self.client.post_json(path, body, headers=COMPUTE, expect_errors=True)
        )
        number = answer.json["aggregate"]["id"]
        body = {"add_host": {"host": host}}
        self.client.post_json(f"{path}/{number}/action", body, headers=COMPUTE)

    def hosts_in(self, zone):
        body = {"request_spec": spec(availability_zone=zone)}
        answer = wait_until_served(
            lambda: self.client.post_json("/scheduler/v1/explain", body, expect_errors=True)
        )
        return [one["host"] for one in answer.json["hosts"]]


@pytest.mark.parametrize("in_memory", [False, True], ids=["in SQL", "in memory"])
def test_worker_drops_rows_lost_by_a_failover(servers, settings_of, make_app, in_memory):
    settings = settings_of(in_memory=in_memory)
    one, other = (Worker(make_app(settings, in_memory=in_memory)) for _ in range(2))
    one.client.post_json("/scheduler/v1/compute_nodes", [report("cn1"), report("cn2")])
    made = one.client.post_json("/placement/resource_providers", {"name": "x"}, headers=PLACEMENT)
    provider = made.json["uuid"]
    assert one.hosts_in("lost") == []
    stop_replication(*servers)
    one.make_zone("lost", "cn1")
    one.put(provider, 1000)
    assert one.hosts_in("lost") == ["cn1"]
    assert 1000 in one.capacities()
    fail_over(*servers)
    other.make_zone("kept", "cn2")
    other.put(provider, 2000)
    for worker in (other, one, one):
        assert worker.hosts_in("kept") == ["cn2"]
        assert worker.hosts_in("lost") == []
        assert 2000 in worker.capacities()
        assert 1000 not in worker.capacities()
