# SPDX-License-Identifier: Apache-2.0
"""A failover to a standby of PostgreSQL that lacks the last commits of its primary."""

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
    """Give a function that returns settings for a database with the schema on either server."""
    primary, standby = servers
    primary.query("CREATE DATABASE placement")
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
    """Wait until the standby has applied all commits, and stop its replication."""
    position = primary.query("SELECT pg_current_wal_flush_lsn()")[0]
    assert wait_until(lambda: standby.query(f"SELECT pg_last_wal_replay_lsn() >= '{position}'")[0])
    standby.query("ALTER SYSTEM SET primary_conninfo = ''")
    standby.query("SELECT pg_reload_conf()")
    assert wait_until(lambda: not standby.query("SELECT pid FROM pg_stat_wal_receiver"))


def wait_until_available(send):
    """Repeat a request as long as it is 503, and return the response."""
    answers = []

    def is_available():
        answers.append(send())
        return answers[-1].status_int != 503

    assert wait_until(is_available)
    return answers[-1]


class Worker:
    def __init__(self, client):
        self.client = client

    def put(self, provider, total):
        body = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": total}}}
        path = f"/placement/resource_providers/{provider}/inventories"
        answer = wait_until_available(
            lambda: self.client.put_json(path, body, headers=PLACEMENT, expect_errors=True)
        )
        assert answer.status_int == 200, answer.text

    def capacities(self):
        path = "/placement/allocation_candidates?resources=VCPU:1"
        answer = wait_until_available(
            lambda: self.client.get(path, headers=PLACEMENT, expect_errors=True)
        )
        summaries = answer.json["provider_summaries"].values()
        return [summary["resources"]["VCPU"]["capacity"] for summary in summaries]

    def make_zone(self, zone, host):
        body = {"aggregate": {"name": zone, "availability_zone": zone}}
        path = "/compute/v2.1/os-aggregates"
        answer = wait_until_available(
            lambda: self.client.post_json(path, body, headers=COMPUTE, expect_errors=True)
        )
        number = answer.json["aggregate"]["id"]
        body = {"add_host": {"host": host}}
        self.client.post_json(f"{path}/{number}/action", body, headers=COMPUTE)

    def hosts_in(self, zone):
        body = {"request_spec": spec(availability_zone=zone)}
        answer = wait_until_available(
            lambda: self.client.post_json("/scheduler/v1/explain", body, expect_errors=True)
        )
        return [host["host"] for host in answer.json["hosts"]]


@pytest.mark.parametrize("in_memory", [False, True], ids=["in SQL", "in memory"])
def test_worker_drops_rows_lost_by_a_failover(servers, settings_of, make_app, in_memory):
    settings = settings_of(in_memory=in_memory)
    first, other = (Worker(make_app(settings, in_memory=in_memory)) for _ in range(2))
    first.client.post_json("/scheduler/v1/compute_nodes", [report("cn1"), report("cn2")])
    answer = first.client.post_json(
        "/placement/resource_providers", {"name": "x"}, headers=PLACEMENT
    )
    provider = answer.json["uuid"]
    assert first.hosts_in("lost") == []
    stop_replication(*servers)
    first.make_zone("lost", "cn1")
    first.put(provider, 1000)
    assert first.hosts_in("lost") == ["cn1"]
    assert 1000 in first.capacities()
    fail_over(*servers)
    other.make_zone("kept", "cn2")
    other.put(provider, 2000)
    for worker in (other, first, first):
        assert worker.hosts_in("kept") == ["cn2"]
        assert worker.hosts_in("lost") == []
        assert 2000 in worker.capacities()
        assert 1000 not in worker.capacities()
