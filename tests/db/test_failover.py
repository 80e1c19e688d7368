# SPDX-License-Identifier: Apache-2.0
"""Epochs of servers, and a failover of PostgreSQL that loses the last commits."""

from uuid import uuid4

import pytest
from sqlalchemy import create_engine, text

from placement_sched.db.engine import build_database_url as url_of
from placement_sched.db.engine import make_engine
from placement_sched.db.failover import EPOCH_KEY, EpochTracker, get_epoch
from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.model.request_stats import begin_stats, get_request_stats
from placement_sched.operations.prepare import sync
from tests.conftest import make_settings
from tests.db.connections import get_driver_connection
from tests.support.postgresql import run_primary_and_standby
from tests.support.scheduling import make_report, make_spec
from tests.support.servers import wait_until

pytestmark = pytest.mark.slow

PLACEMENT_HEADERS = {"OpenStack-API-Version": "placement 1.39"}
COMPUTE_HEADERS = {"OpenStack-API-Version": "compute 2.90"}


@pytest.fixture
def primary_and_standby():
    with run_primary_and_standby() as primary_and_standby:
        yield primary_and_standby


@pytest.fixture
def cached_and_uncached_worker(primary_and_standby, make_app):
    """Return a worker with a provider cache, and another without it, on either server."""
    primary, standby = primary_and_standby
    primary.query("CREATE DATABASE placement")
    url = primary.url("placement", standby)
    settings = [
        make_settings(url, placement__providers_in_memory=has_cache) for has_cache in (True, False)
    ]
    database = Database(settings[0])
    sync(database, utcnow)
    database.dispose()
    cached, uncached = settings
    return WorkerClient(make_app(cached)), WorkerClient(make_app(uncached))


def fail_over_to_standby(primary, standby):
    primary.stop("immediate")
    standby.promote()


def stop_replication(primary, standby):
    """Wait until the standby has applied all commits, and stop its replication."""
    position = primary.query("SELECT pg_current_wal_flush_lsn()")[0]
    assert wait_until(lambda: standby.query(f"SELECT pg_last_wal_replay_lsn() >= '{position}'")[0])
    standby.query("ALTER SYSTEM SET primary_conninfo = ''")
    standby.query("SELECT pg_reload_conf()")
    assert wait_until(lambda: not standby.query("SELECT pid FROM pg_stat_wal_receiver"))


def wait_until_available(send_request):
    """Repeat a request as long as it is 503, and return the response."""
    responses = []

    def is_available():
        responses.append(send_request())
        return responses[-1].status_int != 503

    assert wait_until(is_available)
    return responses[-1]


class WorkerClient:
    def __init__(self, client):
        self.client = client

    def put_inventory(self, provider, total):
        body = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": total}}}
        path = f"/placement/resource_providers/{provider}/inventories"
        response = wait_until_available(
            lambda: self.client.put_json(path, body, headers=PLACEMENT_HEADERS, expect_errors=True)
        )
        assert response.status_int == 200, response.text

    def list_capacities(self):
        path = "/placement/allocation_candidates?resources=VCPU:1"
        response = wait_until_available(
            lambda: self.client.get(path, headers=PLACEMENT_HEADERS, expect_errors=True)
        )
        summaries = response.json["provider_summaries"].values()
        return [summary["resources"]["VCPU"]["capacity"] for summary in summaries]

    def create_zone_with_host(self, zone, host):
        body = {"aggregate": {"name": zone, "availability_zone": zone}}
        path = "/compute/v2.1/os-aggregates"
        response = wait_until_available(
            lambda: self.client.post_json(path, body, headers=COMPUTE_HEADERS, expect_errors=True)
        )
        number = response.json["aggregate"]["id"]
        body = {"add_host": {"host": host}}
        self.client.post_json(f"{path}/{number}/action", body, headers=COMPUTE_HEADERS)

    def list_hosts_in_zone(self, zone):
        body = {"request_spec": make_spec(availability_zone=zone)}
        response = wait_until_available(
            lambda: self.client.post_json("/scheduler/v1/explain", body, expect_errors=True)
        )
        return [host["host"] for host in response.json["hosts"]]


def test_workers_forget_cached_rows_lost_by_a_database_failover(
    primary_and_standby, cached_and_uncached_worker
):
    first, other = cached_and_uncached_worker
    first.client.post_json("/scheduler/v1/compute_nodes", [make_report("cn1"), make_report("cn2")])
    response = first.client.post_json(
        "/placement/resource_providers", {"name": "x"}, headers=PLACEMENT_HEADERS
    )
    provider = response.json["uuid"]
    stop_replication(*primary_and_standby)
    first.create_zone_with_host("lost", "cn1")
    first.put_inventory(provider, 1000)
    for worker in cached_and_uncached_worker:
        assert worker.list_hosts_in_zone("lost") == ["cn1"]
        assert 1000 in worker.list_capacities()
    fail_over_to_standby(*primary_and_standby)
    other.create_zone_with_host("kept", "cn2")
    other.put_inventory(provider, 2000)
    for worker in (other, first, first):
        assert worker.list_hosts_in_zone("kept") == ["cn2"]
        assert worker.list_hosts_in_zone("lost") == []
        assert 2000 in worker.list_capacities()
        assert 1000 not in worker.list_capacities()


@pytest.fixture(params=["postgresql_server", "mysql_server"])
def server_settings(request):
    return make_settings(request.getfixturevalue(request.param))


@pytest.fixture(params=[True, False], ids=["reader", "writer"])
def engine(request, server_settings):
    engine = make_engine(url_of(server_settings), server_settings, autocommit=request.param)
    yield engine
    engine.dispose()


@pytest.fixture
def epoch_tracker(engine):
    epoch_tracker = EpochTracker()
    epoch_tracker.follow(engine)
    return epoch_tracker


def test_connections_identify_their_server_without_a_statement(server_settings, sqlite_database):
    database = Database(server_settings)
    begin_stats()
    assert database.epoch is None
    with database.read() as first, database.read() as second:
        assert get_epoch(first) == get_epoch(second) == database.epoch is not None
    assert database.write(get_epoch) == database.epoch
    assert get_request_stats().statements == 0
    database.dispose()
    with sqlite_database.read() as connection:
        assert get_epoch(connection) is None


def test_connection_from_before_a_database_failover_is_replaced(engine, epoch_tracker, caplog):
    with engine.connect() as connection:
        old, current = get_driver_connection(connection), epoch_tracker.current
        assert current == get_epoch(connection)
        if engine.dialect.name == "postgresql":
            assert old.info.transaction_status.name == "IDLE"
    epoch_tracker.current = ("another server",)
    with engine.connect() as connection:
        assert get_driver_connection(connection) is not old
        assert get_epoch(connection) == epoch_tracker.current == current
        assert "another server has taken over" in caplog.text
        # A pooler may change the server of an open connection.
        connection.info[EPOCH_KEY] = epoch_tracker.current = ("former server",)
        epoch_tracker.read_again(
            engine.dialect.name, get_driver_connection(connection), connection.info
        )
        assert get_epoch(connection) == epoch_tracker.current == current


def test_recreated_postgresql_database_is_identified_as_another(postgresql_server):
    name, epochs = f"ps_restored_{uuid4().hex[:8]}", set()
    readable = "SELECT has_function_privilege('public', 'pg_postmaster_start_time()', 'execute')"
    engine = create_engine(postgresql_server, isolation_level="AUTOCOMMIT")
    restored = engine.url.set(database=name).render_as_string(hide_password=False)
    with engine.connect() as connection:
        assert connection.scalar(text(readable))
        for _ in range(2):
            connection.execute(text(f"CREATE DATABASE {name}"))
            database = Database(make_settings(restored))
            with database.read() as opened:
                epochs.add(get_epoch(opened))
            database.dispose()
            connection.execute(text(f"DROP DATABASE {name}"))
    engine.dispose()
    assert len(epochs) == 2
