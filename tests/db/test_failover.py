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
def workers(servers, make_app):
    """Return a worker with a provider cache, and another without it, on either server."""
    primary, standby = servers
    primary.query("CREATE DATABASE placement")
    url = primary.url("placement", standby)
    settings = [make_settings(url, placement__providers_in_memory=one) for one in (True, False)]
    database = Database(settings[0])
    sync(database, utcnow)
    database.dispose()
    cached, uncached = settings
    return Worker(make_app(cached, in_memory=True)), Worker(make_app(uncached))


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


def test_workers_drop_rows_lost_by_a_failover(servers, workers):
    first, other = workers
    first.client.post_json("/scheduler/v1/compute_nodes", [report("cn1"), report("cn2")])
    answer = first.client.post_json(
        "/placement/resource_providers", {"name": "x"}, headers=PLACEMENT
    )
    provider = answer.json["uuid"]
    stop_replication(*servers)
    first.make_zone("lost", "cn1")
    first.put(provider, 1000)
    for worker in workers:
        assert worker.hosts_in("lost") == ["cn1"]
        assert 1000 in worker.capacities()
    fail_over(*servers)
    other.make_zone("kept", "cn2")
    other.put(provider, 2000)
    for worker in (other, first, first):
        assert worker.hosts_in("kept") == ["cn2"]
        assert worker.hosts_in("lost") == []
        assert 2000 in worker.capacities()
        assert 1000 not in worker.capacities()
