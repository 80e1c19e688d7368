# SPDX-License-Identifier: Apache-2.0
"""The collection of load: states, a single collector, and failures."""

import threading
from datetime import datetime, timedelta
from functools import partial

import pytest

from placement_sched.db.leases import Lease
from placement_sched.errors import ConfigurationError
from placement_sched.extensions.load import store
from placement_sched.extensions.load.collection import LOAD_THREAD, LoadTask, collect_load
from tests.extensions.load.fake_prometheus import PARSE_ERROR, build_vector
from tests.support.api_clouds import NODES_PATH, place_instance_on_host
from tests.support.concurrency import join_threads
from tests.support.scheduling import make_report, make_spec, make_uuid, select_hosts

LOAD_PATH = "/scheduler/v1/load"


class Clock:
    """A clock that a test sets forward."""

    def __init__(self):
        self.now = datetime(2026, 1, 1, 12, 0, 0, 123000)  # as in the recorded responses

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def make_cloud(make_app, with_load, clock):
    """Return a function that makes an application with cn1 and cn2."""

    def make(settings, **options):
        settings = with_load(settings, **options)
        # The tasks of a server begin without an address, so that only the test collects.
        app = make_app(settings.with_overrides({"load.prometheus_url": None}), clock=clock)
        app.post_json(NODES_PATH, [make_report("cn1"), make_report("cn2")])
        services = app.app.services
        collect = partial(collect_load, services.database, settings, clock)
        return app, collect

    return make


def read_hosts(app):
    """Return the state and the value of each query of each host."""
    return {
        host["host"]: {value["query"]: (value["state"], value["value"]) for value in host["values"]}
        for host in app.get(LOAD_PATH).json["hosts"]
    }


@pytest.mark.all_databases
def test_values_of_hosts_and_servers_are_stored(settings, make_cloud, prometheus, clock):
    app, collect = make_cloud(
        settings, host_queries=["cpu: cpu", "memory: memory"], server_queries=["cpu: servers"]
    )
    place_instance_on_host(app, 7, "cn1")
    prometheus.responses = {
        "cpu": build_vector(cn1=0.25, cn2=0.5),
        "memory": build_vector(cn1="NaN", elsewhere=0.1),
        "servers": build_vector(({"instance_id": make_uuid(7)}, 2.5)),
    }
    assert collect() == {}
    assert read_hosts(app) == {
        "cn1": {"cpu": ("ok", 0.25), "memory": ("not_a_number", None)},
        "cn2": {"cpu": ("ok", 0.5), "memory": ("missing", None)},
    }
    clock.now += timedelta(seconds=600)
    time = clock.now.timestamp()
    prometheus.responses["cpu"] = build_vector(cn1=0.75, time=time + offset_of_utc(clock))
    collect()
    host = app.get(f"{LOAD_PATH}/cn1").json
    (cpu, memory), (server,) = host["values"], host["servers"]
    assert (cpu["value"], cpu["smoothed"], cpu["age"], cpu["state"]) == (0.75, 0.5, 0, "ok")
    assert (memory["value"], memory["state"], memory["age"]) == (None, "old", 600)
    assert (server["uuid"], server["values"][0]["value"]) == (make_uuid(7), 2.5)


def offset_of_utc(clock):
    """Return the seconds between local time and UTC."""
    return clock.now.astimezone().utcoffset().total_seconds()


def test_stopped_exporter_makes_the_value_old(sqlite_settings, make_cloud, prometheus, clock):
    app, collect = make_cloud(sqlite_settings)
    prometheus.responses["cpu"] = build_vector(cn1=0.25, cn2=0.5)
    collect()
    clock.now += timedelta(seconds=200)
    time = clock.now.timestamp() + offset_of_utc(clock)
    prometheus.responses["cpu"] = build_vector(cn2=0.5, time=time)
    collect()
    assert read_hosts(app) == {"cn1": {"cpu": ("old", 0.25)}, "cn2": {"cpu": ("ok", 0.5)}}
    (query,) = app.get(LOAD_PATH).json["queries"]
    assert (query["old"], query["youngest"], query["oldest"]) == (1, 0, 200)
    assert (query["result"]["matched"], query["result"]["missing_names"]) == (1, ["cn1"])


def test_failed_query_leaves_values_that_grow_old(sqlite_settings, make_cloud, prometheus, clock):
    app, collect = make_cloud(sqlite_settings)
    prometheus.responses["cpu"] = build_vector(cn1=0.25, cn2=0.5)
    collect()
    prometheus.failure = "400 Bad Request", PARSE_ERROR
    (error,) = collect().values()
    assert error == f"Prometheus: {PARSE_ERROR['error']}"
    (query,) = app.get(LOAD_PATH).json["queries"]
    assert (query["error"], query["result"]) == (error, None)
    assert read_hosts(app)["cn1"] == {"cpu": ("ok", 0.25)}
    clock.now += timedelta(seconds=181)
    assert read_hosts(app)["cn1"] == {"cpu": ("old", 0.25)}


def test_counter_reset_in_the_query_restarts_nothing(sqlite_settings, make_cloud, prometheus):
    """Prometheus' rate() handles resets. A value that falls to 0 is a value."""
    app, collect = make_cloud(sqlite_settings, half_life=0)
    for value in (0.9, 0.0):
        prometheus.responses["cpu"] = build_vector(cn1=value)
        collect()
        assert read_hosts(app)["cn1"] == {"cpu": ("ok", value)}


def test_rows_of_removed_queries_and_after_a_day_are_deleted(
    sqlite_settings, make_cloud, with_load, prometheus, clock
):
    app, collect = make_cloud(sqlite_settings, host_queries=["cpu: cpu", "memory: memory"])
    prometheus.responses = dict.fromkeys(("cpu", "memory"), build_vector(cn1=0.25))
    collect()
    prometheus.responses = {}
    settings = with_load(sqlite_settings, host_queries=["memory: memory"])
    database = app.app.services.database
    collect_load(database, settings, clock)
    assert read_hosts(app)["cn1"] == {"cpu": ("missing", None), "memory": ("ok", 0.25)}
    clock.now += timedelta(days=1, seconds=1)
    collect_load(database, settings, clock)
    assert read_hosts(app)["cn1"]["memory"] == ("missing", None)


@pytest.mark.all_databases
def test_ten_thousand_hosts_are_stored_in_short_transactions(
    settings, make_app, with_load, prometheus, clock, monkeypatch
):
    app = make_app(settings, clock=clock)
    names = [f"cn{number:05}" for number in range(10_000)]
    for start in range(0, len(names), 2_000):
        reports = [make_report(name) for name in names[start : start + 2_000]]
        app.post_json(NODES_PATH, reports)
    pairs = [({"nodename": name}, number / 10_000) for number, name in enumerate(names)]
    prometheus.responses["cpu"] = build_vector(*pairs)
    database, sizes, record_values = app.app.services.database, [], store.record_values

    def record_and_count(connection, query, values):
        sizes.append(len(values))
        record_values(connection, query, values)

    monkeypatch.setattr(store, "record_values", record_and_count)
    loaded = with_load(settings)
    collect_load(database, loaded, clock)
    assert (len(sizes), max(sizes)) == (20, 500)
    reader = make_app(loaded.with_overrides({"load.prometheus_url": None}), clock=clock)
    assert read_hosts(reader) == {
        name: {"cpu": ("ok", number / 10_000)} for number, name in enumerate(names)
    }


def test_changed_query_begins_without_the_values_of_the_old(
    sqlite_settings, make_cloud, with_load, prometheus, clock
):
    """A query in percent that becomes a fraction leaves no wrong average."""
    app, collect = make_cloud(sqlite_settings)
    prometheus.responses = {"cpu": build_vector(cn1=50, cn2=70), "cpu / 100": build_vector(cn1=0.5)}
    collect()
    database = app.app.services.database
    settings = with_load(sqlite_settings, host_queries=["cpu: cpu / 100"])
    collect_load(database, settings, clock)
    with database.read() as connection:
        values = store.read_values(connection, "host")["cpu"]
    assert values.keys() == {"cn1"}
    assert (values["cn1"].value, values["cn1"].smoothed) == (0.5, 0.5)


def test_values_of_other_promql_are_not_shown(
    sqlite_settings, make_app, make_cloud, with_load, prometheus, clock
):
    """Servers may have different configurations for a while."""
    app, collect = make_cloud(sqlite_settings)
    prometheus.responses["cpu"] = build_vector(cn1=0.25)
    collect()
    settings = with_load(sqlite_settings, host_queries=["cpu: cpu / 100"], prometheus_url=None)
    other_app = make_app(settings, clock=clock)
    assert read_hosts(app)["cn1"] == {"cpu": ("ok", 0.25)}
    assert read_hosts(other_app)["cn1"] == {"cpu": ("missing", None)}
    (query,) = other_app.get(LOAD_PATH).json["queries"]
    assert (query["collected_at"], query["result"], query["oldest"]) == (None, None, None)
    task = LoadTask(
        app.app.services.database,
        with_load(sqlite_settings, host_queries=["cpu: cpu / 100"]),
        clock,
    )
    task.run_round()
    assert prometheus.seen[-1][2] == "cpu / 100"


def test_one_process_collects_and_another_reads(sqlite_settings, make_app, with_load, prometheus):
    settings = with_load(sqlite_settings)
    first, second = make_app(settings), make_app(settings)
    first.post_json(NODES_PATH, [make_report("cn1")])
    join_threads(LOAD_THREAD)
    assert [request[2] for request in prometheus.seen] == ["cpu"]
    second.get(LOAD_PATH)
    join_threads(LOAD_THREAD)
    assert len(prometheus.seen) == 1


def test_process_without_the_lease_does_not_collect(
    sqlite_database, sqlite_settings, with_load, prometheus, clock
):
    holder = Lease(sqlite_database, LOAD_THREAD, 60)
    assert holder.is_held()
    task = LoadTask(sqlite_database, with_load(sqlite_settings), clock)
    task.run_round()
    assert prometheus.seen == []
    holder.release()
    task.run_round()
    assert len(prometheus.seen) == 1


def test_collection_is_repeated_after_the_interval(
    sqlite_database, sqlite_settings, with_load, prometheus, clock
):
    task = LoadTask(sqlite_database, with_load(sqlite_settings), clock)
    for elapsed, count in ((0, 1), (59, 1), (1, 2), (-3600, 3)):
        clock.now += timedelta(seconds=elapsed)
        task.run_round()
        assert len(prometheus.seen) == count


def test_repeated_error_is_logged_once(
    sqlite_database, sqlite_settings, with_load, prometheus, clock, caplog
):
    task = LoadTask(sqlite_database, with_load(sqlite_settings), clock)
    prometheus.failure = "400 Bad Request", PARSE_ERROR
    for _ in range(3):
        task.run_round()
        clock.now += timedelta(seconds=60)
    warnings = [each.message for each in caplog.records if each.levelname == "WARNING"]
    assert warnings == [f"[load] host_queries, cpu: Prometheus: {PARSE_ERROR['error']}"]


def test_requests_do_not_wait_for_prometheus(sqlite_settings, make_app, with_load, prometheus):
    prometheus.awake.clear()
    app = make_app(with_load(sqlite_settings))
    app.post_json(NODES_PATH, [make_report("cn1")])
    assert LOAD_THREAD in {thread.name for thread in threading.enumerate()}
    select_hosts(app, make_spec())
    assert read_hosts(app) == {"cn1": {"cpu": ("missing", None)}}
    # Prometheus has still not answered.
    assert LOAD_THREAD in {thread.name for thread in threading.enumerate()}
    prometheus.awake.set()


def test_nothing_is_collected_without_address_or_query(
    sqlite_database, sqlite_settings, with_load, clock
):
    for options in ({"prometheus_url": None}, {"host_queries": []}):
        assert not LoadTask(sqlite_database, with_load(sqlite_settings, **options), clock).is_due()


def test_server_does_not_start_with_two_queries_of_a_name(sqlite_settings, make_app, with_load):
    settings = with_load(sqlite_settings, host_queries=["cpu: a", "cpu: b"])
    with pytest.raises(ConfigurationError, match="host_queries has two queries named cpu"):
        make_app(settings)
