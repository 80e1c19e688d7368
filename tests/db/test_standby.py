"""What a hot standby of PostgreSQL answers, and when its primary does; on servers of their own."""

import re
import threading
import time
from collections import Counter
from functools import partial
from itertools import count
from uuid import uuid4

import psutil
import pytest
from sqlalchemy import insert
from sqlalchemy.engine import make_url
from webtest import AppError

from placement_sched.db import standby as module
from placement_sched.db.histories import history_of
from placement_sched.db.tables import traits
from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.operations.gauges import standbys as standby_gauges
from placement_sched.operations.prepare import sync
from placement_sched.store import standby_lag
from tests.at_once import at_once
from tests.chaos.scale import TRIED
from tests.conftest import make_settings
from tests.invariants import assert_invariants
from tests.placing import report, spec
from tests.postgresql import primary_and_standby
from tests.servers import wait_until
from tests.statements import counted

pytestmark = [pytest.mark.all_databases, pytest.mark.exhaustive]

CANDIDATES = "/placement/allocation_candidates?resources=VCPU:1"
READS = (
    CANDIDATES,
    "/placement/resource_providers",
    "/placement/resource_providers?in_tree={root}",
    "/placement/resource_providers/{root}/usages",
    "/placement/usages?project_id=p",
)
PROVIDERS = "/placement/resource_providers"
#: Clients that write while the standby takes over.
WRITERS = 6
QUESTIONS = ("explain", "capacity")
#: Lets its standby stand still, and lets it go on.
PAUSE, RESUME = "SELECT pg_wal_replay_pause()", "SELECT pg_wal_replay_resume()"
#: A trait that is written, and what counts it.
LOST, HAS = "CUSTOM_LOST", "SELECT count(*) FROM traits WHERE name"
VERSION = {"OpenStack-API-Version": "placement 1.39"}


@pytest.fixture(scope="module")
def servers():
    with primary_and_standby() as servers:
        yield servers


@pytest.fixture
def patient(monkeypatch):
    """Wait for a standby for as long as a busy machine may take."""
    monkeypatch.setattr(module, "LOOKS", (*module.LOOKS, *[0.1] * 20))


@pytest.fixture
def url(servers, request):
    """The URL of an empty, prepared database on the primary."""
    primary, standby = servers
    name = f"t{abs(hash(request.node.nodeid)):x}"
    primary.ask(f"CREATE DATABASE {name}")
    database = Database(make_settings(primary.url(name)))
    sync(database, utcnow)
    database.dispose()
    yield name
    standby.ask(RESUME)


@pytest.fixture
def made(servers, url, make_app):
    """Return a function that makes a client of an application that reads from the standby."""
    primary, standby = servers

    def made(*, in_memory=False, **options):
        settings = make_settings(
            primary.url(url), placement_database__slave_connection=standby.url(url), **options
        )
        settings = settings.overridden({"placement.providers_in_memory": in_memory})
        return make_app(settings, in_memory=in_memory)

    return made


def answered_by(client):
    """Return how many requests the standby and the primary have answered."""
    lines = client.get("/metrics").text.splitlines()
    name = "placement_sched_standby_reads_total{answered_by="
    found = dict(line.removeprefix(name).split("} ") for line in lines if line.startswith(name))
    return {key.strip('"'): int(float(number)) for key, number in found.items()}


def ask(client, path, token="admin"):
    return client.get(path, headers={**VERSION, "X-Auth-Token": token}).json


def names(client, token="admin"):
    found = ask(client, "/placement/resource_providers", token)["resource_providers"]
    return sorted(one["name"] for one in found)


def create(client, name, token="admin"):
    return client.post_json(
        "/placement/resource_providers", {"name": name}, headers={**VERSION, "X-Auth-Token": token}
    ).json


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("in_memory", [False, True])
def test_standby_answers_what_it_may_and_as_the_primary_does(
    made, servers, url, make_app, in_memory
):
    client = made(in_memory=in_memory)
    alone = make_app(make_settings(servers[0].url(url)))
    client.post_json("/scheduler/v1/compute_nodes", [report("cn1"), report("cn2")])
    root = ask(alone, "/placement/resource_providers")["resource_providers"][0]["uuid"]
    for path in READS:
        asked = path.format(root=root)
        assert ask(client, asked) == ask(alone, asked)
    for question in QUESTIONS:
        body = {"request_spec": spec()}
        asked = f"/scheduler/v1/{question}"
        shown = client.post_json(asked, body).json
        assert shown.keys() == alone.post_json(asked, body).json.keys()
    assert answered_by(client) == {"standby": len(READS) + len(QUESTIONS)}


def test_all_else_is_answered_by_the_primary(made, servers):
    servers[1].ask(PAUSE)
    client = made()
    uuid = create(client, "p")["uuid"]
    client.post_json("/scheduler/v1/compute_nodes", [report("cn1")])
    client.post_json("/scheduler/v1/select_destinations", {"request_spec": spec()})
    ask(client, "/placement/traits")
    for below in ("", "/inventories", "/aggregates", "/traits", "/allocations"):
        ask(client, f"/placement/resource_providers/{uuid}{below}")
    assert answered_by(client) == {}


def test_cloud_supposed_to_be_another_is_tried_on_the_primary(made):
    client = made()
    client.post_json("/scheduler/v1/compute_nodes", [report("cn1"), report("cn2")])
    changes = [{"drain": ["cn1"]}]
    body = {"request_spec": spec(), "changes": changes}
    shown = client.post_json("/scheduler/v1/explain", body).json
    assert [one["host"] for one in shown["hosts"]] == ["cn2"]


@pytest.mark.usefixtures("patient")
def test_questions_that_take_long_hold_the_same_few_places_on_a_standby(made):
    client = made()
    client.post_json("/scheduler/v1/compute_nodes", [report("cn1"), report("cn2")])
    scheduler = client.app.services.scheduler
    body = {"request_spec": spec(), "changes": [{"drain": ["cn1"]}]}
    with scheduler.at_length(), scheduler.at_length():
        client.post_json("/scheduler/v1/explain", body, status=503)
    client.post_json("/scheduler/v1/explain", body)


def test_standby_that_lags_does_not_answer(made, servers):
    client = made()
    create(client, "before")
    servers[1].ask(PAUSE)
    create(client, "after", token="admin:q")
    assert names(client) == ["after", "before"]
    assert answered_by(client) == {"primary": 1}


@pytest.mark.usefixtures("patient")
def test_claim_sees_what_the_standby_does_not(made, servers):
    client = made(placement_database__max_replica_lag=3600.0)
    client.post_json("/scheduler/v1/compute_nodes", [report("cn1")])
    assert names(client, "admin:q") == ["cn1"]
    servers[1].ask(PAUSE)
    client.post_json("/scheduler/v1/compute_nodes", [report("cn2")])
    assert names(client, "admin:q") == ["cn1"]
    asked = {"request_spec": spec(force_hosts=["cn2"])}
    answer = client.post_json(
        "/scheduler/v1/select_destinations", asked, headers={"X-Auth-Token": "admin:q"}
    )
    assert answer.json["selections"][0][0]["service_host"] == "cn2"


def test_own_writes_are_read_where_commits_do_not_wait_for_the_disk(made, servers):
    primary = servers[0]
    settings = ("synchronous_commit = off", "wal_writer_delay = '10s'")
    for one in settings:
        primary.ask(f"ALTER SYSTEM SET {one}")
    primary.ask("SELECT pg_reload_conf()")
    try:
        client = made()
        for number in range(10):
            create(client, f"p{number}")
            assert len(names(client)) == number + 1
    finally:
        for one in settings:
            primary.ask(f"ALTER SYSTEM RESET {one.split()[0]}")
        primary.ask("SELECT pg_reload_conf()")


@pytest.mark.usefixtures("patient")
def test_lag_that_is_allowed_hides_writes_of_others_and_none_of_ones_own(made, servers):
    client = made(placement_database__max_replica_lag=3600.0)
    create(client, "before")
    assert names(client, "admin:q") == names(client) == ["before"]
    servers[1].ask(PAUSE)
    create(client, "after")
    assert names(client, "admin") == ["after", "before"]
    assert names(client, "admin:q") == ["before"]


@pytest.mark.usefixtures("patient")
def test_lag_that_is_allowed_hides_nothing_that_ones_own_token_wrote_through_another_server(
    made, servers, monkeypatch
):
    one, other = (made(placement_database__max_replica_lag=30.0) for _ in "ab")
    create(one, "before")
    for client in (one, other):
        assert names(client, "admin:q") == names(client) == ["before"]
    servers[1].ask(PAUSE)
    # It has nothing new for as long as it stands still.
    monkeypatch.setattr(module, "LOOKS", module.LOOKS[:1])
    for number, (writer, reader) in enumerate([(one, other), (other, one)] * 3):
        create(writer, f"p{number}")
        assert f"p{number}" in names(reader)
        assert f"p{number}" in names(writer)
        assert names(reader, "admin:q") == ["before"]
    asked = [answered_by(client) for client in (one, other)]
    assert asked == [{"primary": 6, "standby": 5}] * 2
    servers[1].ask(RESUME)
    assert wait_until(lambda: names(other, "admin:q") == names(one))
    assert answered_by(other)["primary"] == 6


def test_what_failed_or_wrote_nothing_is_not_waited_for(made, servers, url):
    client = made(placement_database__max_replica_lag=30.0)
    counted = "SELECT coalesce(sum(version), 0)::int FROM sched_last_writes"
    create(client, "one")
    assert servers[0].ask(counted, url) == [1]
    with pytest.raises(AppError):
        create(client, "one")
    ask(client, CANDIDATES)
    client.post_json("/scheduler/v1/explain", {"request_spec": spec()})
    assert servers[0].ask(counted, url) == [1]


def test_no_writes_are_counted_where_no_answer_lags(made, servers, url):
    client = made()
    create(client, "one")
    assert servers[0].ask("SELECT count(*) FROM sched_last_writes", url) == [0]


@pytest.mark.usefixtures("patient")
def test_writes_of_one_token_at_the_same_moment_are_all_counted(made, servers, url):
    client = made(placement_database__max_replica_lag=30.0)
    assert names(client) == []
    at_once(*(partial(create, client, f"p{number}") for number in range(40)))
    assert servers[0].ask("SELECT sum(version)::int FROM sched_last_writes", url) == [40]
    assert len(names(client)) == 40


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(("lag", "statements"), [(0.0, 1), (30.0, 1)])
def test_answer_of_a_standby_costs_the_primary_one_statement(made, lag, statements):
    client = made(placement_database__max_replica_lag=lag)
    create(client, "one")
    assert names(client) == ["one"]
    with counted(client.app.services.database) as seen:
        assert names(client) == ["one"]
    assert len(seen) == statements
    assert answered_by(client) == {"standby": 2}


@pytest.mark.usefixtures("patient")
def test_lag_beyond_what_is_allowed_is_not_shown(made, servers):
    client = made(placement_database__max_replica_lag=0.5)
    create(client, "before")
    assert names(client, "admin:q") == ["before"]
    servers[1].ask(PAUSE)
    create(client, "after")
    time.sleep(0.6)
    assert names(client, "admin:q") == ["after", "before"]


@pytest.mark.usefixtures("patient")
def test_standby_that_is_away_is_asked_again_later(made, servers, monkeypatch):
    monkeypatch.setattr(module, "PAUSE", 0.0)
    client = made()
    create(client, "one")
    servers[1].stop()
    try:
        assert names(client) == ["one"]
    finally:
        servers[1].start()
    assert answered_by(client) == {"primary": 1}
    assert names(client) == ["one"]
    assert answered_by(client) == {"primary": 1, "standby": 1}


@pytest.mark.parametrize("lag", [0.0, 30.0])
def test_nothing_acknowledged_is_lost_where_the_standby_takes_over(make_app, lag, record_property):
    with primary_and_standby(synchronous=True) as (primary, standby):
        both = primary.url("postgres", standby)
        database = Database(make_settings(both))
        sync(database, utcnow)
        database.dispose()
        client = make_app(
            make_settings(
                both,
                placement_database__slave_connection=standby.url(),
                placement_database__max_replica_lag=lag,
            )
        )
        shared = create(client, "shared")["uuid"]
        stock = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 100_000}}}
        client.put_json(f"{PROVIDERS}/{shared}/inventories", stock, headers=VERSION)
        acknowledged: list[set[str]] = [set() for _ in range(WRITERS)]
        statuses: Counter[int] = Counter()
        unread: list[str] = []
        enough = [20] * WRITERS

        def write(which):
            mine, headers = acknowledged[which], {**VERSION, "X-Auth-Token": f"admin:{which}"}
            for number in count():
                if len(mine) >= enough[which] and promoted.is_set():
                    return
                name = f"{which}-{number}"
                for send, path, body in (
                    (client.post_json, PROVIDERS, {"name": name}),
                    (client.put_json, f"/placement/allocations/{uuid4()}", claim_of(shared)),
                ):
                    answer = send(path, body, headers=headers, expect_errors=True)
                    statuses[answer.status_int] += 1
                    if answer.status_int < 300:
                        mine.add(name if send == client.post_json else path)
                seen = client.get(f"{PROVIDERS}?name={name}", headers=headers, expect_errors=True)
                if seen.status_int == 200 and len(seen.json["resource_providers"]) < (name in mine):
                    unread.append(name)

        promoted = threading.Event()
        writers = [threading.Thread(target=write, args=(which,)) for which in range(WRITERS)]
        for one in writers:
            one.start()
        assert wait_until(lambda: all(len(mine) >= 20 for mine in acknowledged), 60)
        primary.stop("immediate")
        standby.promote()
        # Each of them goes on.
        enough[:] = [len(mine) + 20 for mine in acknowledged]
        promoted.set()
        for one in writers:
            one.join(timeout=120)
        assert not any(one.is_alive() for one in writers)
        held = standby.ask("SELECT '/placement/allocations/' || consumer_id FROM allocations")
        assert set().union(*acknowledged) <= {*names(client), *held}
        assert unread == []
        assert statuses.keys() <= {200, 204, 503}
        database = Database(make_settings(standby.url()))
        assert_invariants(database)
        database.dispose()
        total = sum(map(len, acknowledged))
        record_property(TRIED, f"1 promotion under load, {total} writes of {WRITERS} writers")


def claim_of(provider):
    return {
        "allocations": {provider: {"resources": {"VCPU": 1}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }


def standbys(client):
    """Return what ``/metrics`` shows of each standby: whether it answers, and its lag."""
    text = client.get("/metrics").text
    found = re.findall(r'placement_sched_standby_(up|lag_seconds)\{standby="([^"]+)"\} (\S+)', text)
    return {(standby, name): float(number) for name, standby, number in found}


@pytest.fixture
def asked_each_time(monkeypatch):
    monkeypatch.setattr(standby_gauges, "KEPT", 0)


@pytest.mark.usefixtures("patient")
def test_write_that_the_synchronous_standby_lacks_is_not_acknowledged_after_a_restart():
    with primary_and_standby(synchronous=True) as (primary, standby):
        database = Database(make_settings(primary.url("postgres", standby)))
        sync(database, utcnow)
        receivers = _receivers(standby)
        for one in receivers:
            one.suspend()
        done = threading.Event()

        def write():
            database.write(lambda connection: connection.execute(insert(traits).values(name=LOST)))
            done.set()

        writer = threading.Thread(target=write)
        writer.start()
        try:
            # It is committed by the primary, and waits for its standby; a restart shows it to all.
            waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
            assert wait_until(lambda: primary.ask(waits) == [1])
            primary.stop("immediate")
            primary.start()
            assert wait_until(lambda: primary.ask(f"{HAS} = '{LOST}'") == [1])
            assert not done.wait(3)
            primary.stop("immediate")
        finally:
            for one in receivers:
                one.kill()
        standby.promote()
        writer.join(60)
        assert done.is_set()
        assert standby.ask(f"{HAS} = '{LOST}'") == [1]
        database.dispose()


def _receivers(standby):
    server = psutil.Process(int((standby.data / "postmaster.pid").read_text().split()[0]))
    found = [one for one in server.children() if "walreceiver" in " ".join(one.cmdline())]
    assert found
    return found


@pytest.mark.usefixtures("patient", "asked_each_time")
def test_lag_grows_while_the_standby_lacks_something_and_ends_when_it_has_it(made, servers):
    client = made()
    name = f"127.0.0.1:{servers[1].port}"
    create(client, "before")
    assert standbys(client) == {(name, "up"): 1.0, (name, "lag_seconds"): 0.0}
    servers[1].ask(PAUSE)
    create(client, "after")
    began = time.monotonic()
    time.sleep(1.1)
    first = standbys(client)[name, "lag_seconds"]
    assert first >= 1.1
    second = standbys(client)[name, "lag_seconds"]
    # It is counted from when the standby was last seen to have all, a moment before the write.
    assert first < second < time.monotonic() - began + 5
    servers[1].ask(RESUME)
    assert wait_until(lambda: standbys(client)[name, "lag_seconds"] == 0.0)


@pytest.mark.usefixtures("asked_each_time")
def test_standby_never_seen_without_lag_lags_since_the_last_commit_it_has(servers, url):
    primary, standby = servers
    settings = make_settings(primary.url(url))
    database = Database(settings)
    primary.ask("CREATE TABLE t (n int)", url)
    assert wait_until(lambda: standby.ask("SELECT to_regclass('t')", url) == ["t"])
    standby.ask(PAUSE)
    time.sleep(0.5)
    primary.ask("INSERT INTO t VALUES (1)", url)
    lags = standby_lag.StandbyLags(make_url(standby.url(url)), database, settings)
    ((name, lag),) = lags.read()
    assert name == f"127.0.0.1:{standby.port}"
    assert 0.5 <= lag < 60
    lags.dispose()
    database.dispose()


@pytest.mark.usefixtures("patient", "asked_each_time")
def test_each_standby_of_the_url_is_shown_and_one_that_is_away_has_no_lag(
    made, servers, url, make_app
):
    primary, standby = servers
    nowhere = "127.0.0.1:9"
    several = f"postgresql://postgres@/{url}?host={nowhere}&host=127.0.0.1:{standby.port}"
    client = make_app(
        make_settings(
            primary.url(url),
            placement_database__slave_connection=f"{several}&target_session_attrs=standby",
        )
    )
    there = f"127.0.0.1:{standby.port}"
    shown = {(nowhere, "up"): 0.0, (there, "up"): 1.0, (there, "lag_seconds"): 0.0}
    assert standbys(client) == shown
    assert names(client) == []
    assert answered_by(client) == {"standby": 1}
    standby.stop()
    try:
        assert standbys(client) == {(nowhere, "up"): 0.0, (there, "up"): 0.0}
    finally:
        standby.start()
    assert standbys(client) == shown


def test_without_the_primary_nothing_is_known_of_the_standbys(servers, url, make_app):
    client = make_app(
        make_settings(
            f"postgresql://postgres@127.0.0.1:9/{url}",
            placement_database__slave_connection=servers[1].url(url),
        )
    )
    assert standbys(client) == {}


def test_without_a_standby_there_are_no_such_gauges(servers, url, make_app):
    assert "standby_lag" not in make_app(make_settings(servers[0].url(url))).get("/metrics").text


@pytest.mark.parametrize(
    ("place", "servers"),
    [
        ("db1", {"db1": "db1"}),
        ("db1:6432", {"db1:6432": "db1:6432"}),
        ("", {"local": ""}),
        ("?host=/run/postgresql", {"/run/postgresql": "/run/postgresql"}),
        ("?host=db1:1&host=db2", {"db1:1": "db1:1", "db2": "db2"}),
        ("?host=db1,db2&port=1,2", {"db1:1": "db1:1", "db2:2": "db2:2"}),
        ("?host=db1,db2&target_session_attrs=any", {"db1": "db1", "db2": "db2"}),
    ],
)
def test_servers_of_a_url_are_those_that_it_names(place, servers):
    at, _, query = place.partition("?")
    url = make_url(f"postgresql+psycopg://u:p@{at}/d?sslmode=require&{query}")
    found = standby_lag.servers_of(url)
    assert {
        name: ":".join(str(part) for part in (one.host, one.port) if part)
        for name, one in found.items()
    } == servers
    for one in found.values():
        assert one.query == {"sslmode": "require"}
        assert (one.username, one.password, one.database) == ("u", "p", "d")


def test_what_is_remembered_of_standbys_is_of_the_primary_s_history(servers, url):
    primary, standby = servers
    settings = make_settings(primary.url(url))
    database = Database(settings)
    reader = module.Standby(make_url(standby.url(url)), database, settings)

    def history():
        with reader.recent_enough(), reader.read() as connection:
            return history_of(connection)

    wait_until(lambda: standby.ask(f"SELECT 1 FROM pg_database WHERE datname = '{url}'"))
    first = history()
    assert first == history()
    assert first[0] == database.history is not None
    # Another standby, or this one after it was rewound.
    reader._note_server({}, ("another start",))
    assert history() != first
    reader.dispose()
    database.dispose()
