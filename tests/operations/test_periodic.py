# SPDX-License-Identifier: Apache-2.0
"""Work that a process repeats.

Notices to clients about requests without a host that fit now.
"""

from datetime import datetime, timedelta
from threading import Event, Thread

import pytest
from sqlalchemy import func, insert, select, update

from placement_sched.db import tables
from placement_sched.db.leases import Lease
from placement_sched.db.tables import allocations, provider_changes
from placement_sched.db.transaction import Database
from placement_sched.errors import ServiceFailed
from placement_sched.model.clock import utcnow
from placement_sched.model.decision import Decision, PlacedInstance
from placement_sched.model.plan_run import PlanRun, RunMove
from placement_sched.operations import periodic
from placement_sched.operations.periodic import PAUSE, LogRetention, PeriodicTask, WaitingRequests
from placement_sched.store import decisions, plan_runs
from placement_sched.store.placement import change_log
from tests.conftest import make_settings
from tests.support.concurrency import join_threads
from tests.support.scheduling import flavor, instance, report, spec
from tests.support.statements import record_statements

NOW = datetime(2026, 1, 1, 12, 0, 0)


class CountingTask(PeriodicTask):
    """A task that counts its rounds, and lets a test hold a caller before its round."""

    failure = "counting failed"

    def __init__(self, held=()):
        super().__init__()
        self.rounds = 0
        self._held = list(held)

    def is_due(self):
        if self._held:
            reached, go_on = self._held.pop()
            reached.set()
            assert go_on.wait(30)
        return True

    def run_round(self):
        self.rounds += 1


class CountingTaskInThread(CountingTask):
    thread_name = "counting"


def test_delayed_caller_does_not_repeat_a_round_of_a_periodic_task():
    reached, go_on = Event(), Event()
    task = CountingTask([(reached, go_on)])
    late = Thread(target=task)
    late.start()
    assert reached.wait(30)
    task()
    go_on.set()
    late.join(30)
    assert task.rounds == 1


def test_round_of_a_periodic_task_runs_after_a_failed_start_of_its_thread(monkeypatch):
    task = CountingTaskInThread()

    def fail(_thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(periodic.Thread, "start", fail)
        with pytest.raises(RuntimeError):
            task()
    threads = replace_thread_by_recorder(monkeypatch)
    task()
    threads.pop().join(30)
    assert task.rounds == 1


def replace_thread_by_recorder(monkeypatch):
    """Return a list that receives the threads of tasks."""
    threads = []

    class RecordedThread(Thread):
        def start(self):
            threads.append(self)
            super().start()

    monkeypatch.setattr(periodic, "Thread", RecordedThread)
    return threads


@pytest.fixture
def changed_time(monkeypatch):
    moment = [0.0]
    monkeypatch.setattr(periodic, "monotonic", lambda: moment[0])
    return moment


def build_retention(database, seconds=0, now=NOW):
    settings = make_settings("sqlite://", scheduler__decision_retention=seconds)
    return LogRetention(database, settings, lambda: now)


def _count_rows(database, table):
    with database.read() as connection:
        return connection.scalars(select(func.count()).select_from(table)).one()


def _write_allocations(database, consumer):
    rows = [
        {"resource_provider_id": number, "resource_class_id": 0, "consumer_id": consumer, "used": 1}
        for number in range(1, 9)
    ]
    database.write(lambda connection: connection.execute(insert(allocations), rows))


def _make_rows_old(connection):
    old = utcnow() - change_log.KEEP - timedelta(minutes=1)
    connection.execute(update(provider_changes).values(created_at=old))


@pytest.mark.usefixtures("change_log_triggers")
def test_old_rows_are_deleted_once_a_minute(database_url, changed_time):
    database = Database(make_settings(database_url, placement__providers_in_memory=True))
    upkeep = build_retention(database)
    for consumer in ("one", "two"):
        _write_allocations(database, consumer)
        changed_time[0] += PAUSE + 1
        upkeep()
        database.write(_make_rows_old)
    before = _count_rows(database, provider_changes)
    with record_statements(database) as seen:
        upkeep()
    assert seen == []
    changed_time[0] += PAUSE + 1
    upkeep()
    assert _count_rows(database, provider_changes) < before
    database.dispose()


def test_retention_without_a_log_takes_no_statement(database, changed_time):
    upkeep = build_retention(database)
    changed_time[0] += PAUSE + 1
    with record_statements(database) as seen:
        upkeep()
    assert seen == []


@pytest.mark.all_databases
@pytest.mark.usefixtures("change_log_triggers")
def test_old_rows_are_deleted_by_a_single_process(database_url, changed_time):
    databases = [
        Database(make_settings(database_url, placement__providers_in_memory=True)) for _ in range(2)
    ]
    upkeeps = [build_retention(database) for database in databases]
    changed_time[0] += PAUSE + 1
    rows = []
    for upkeep, database in zip(upkeeps, databases, strict=True):
        _write_allocations(database, str(len(rows)))
        database.write(_make_rows_old)
        upkeep()
        rows.append(_count_rows(database, provider_changes))
    assert rows[0] == 1
    assert rows[1] > 1
    for database in databases:
        database.dispose()


def build_decision(moment, number=0):
    return Decision(
        uuid=instance(1000 + number),
        outcome="selected",
        project_id=None,
        digest="",
        request={},
        answer={},
        places=(PlacedInstance(instance(number), "cn1"),),
        created_at=moment,
    )


def _record_decision(database, number, age):
    moment = NOW - timedelta(seconds=age)
    decision = build_decision(moment, number)
    database.write(lambda connection: decisions.record(connection, decision, moment))


@pytest.mark.all_databases
def test_expired_decisions_are_deleted_once_a_minute_in_batches(
    database, changed_time, monkeypatch
):
    monkeypatch.setattr(periodic, "_BATCH", 1)
    for number, age in enumerate((61, 62, 63, 59)):
        _record_decision(database, number, age)
    upkeep = build_retention(database, seconds=60)
    upkeep()
    assert _count_rows(database, tables.decisions) == 4
    changed_time[0] += PAUSE + 1
    upkeep()
    assert _count_rows(database, tables.decisions) == 1


def test_retention_of_0_keeps_all_decisions(database, changed_time):
    _record_decision(database, 1, age=10**8)
    changed_time[0] += PAUSE + 1
    build_retention(database, seconds=0)()
    assert _count_rows(database, tables.decisions) == 1


def test_expired_runs_of_plans_are_deleted_unless_they_are_running(database, changed_time):
    def record_run(number, state, age):
        run = PlanRun(
            uuid=instance(number),
            kind="plan",
            state=state,
            method="live",
            parallel=1,
            executor=instance(9),
            moves=(RunMove(instance=instance(number), source="cn1", target="cn2"),),
        )
        moment = NOW - timedelta(seconds=age)
        database.write(lambda connection: plan_runs.record(connection, run, moment))

    for number, state in enumerate(("done", "failed", "stopped", "running")):
        record_run(number, state, 61)
    record_run(5, "done", 59)
    upkeep = build_retention(database, seconds=60)
    changed_time[0] += PAUSE + 1
    upkeep()
    with database.read() as connection:
        remaining = {run.uuid for run in plan_runs.search(connection, {})}
    assert remaining == {instance(3), instance(5)}
    assert _count_rows(database, tables.plan_moves) == 2


def test_service_deletes_decisions_after_the_configured_retention(
    make_app, sqlite_url, changed_time
):
    app = make_app(make_settings(sqlite_url, scheduler__decision_retention=3600), clock=lambda: NOW)
    services = app.app.services
    services.ready()
    for number, age in enumerate((3601, 3599)):
        _record_decision(services.database, number, age)
    changed_time[0] += PAUSE + 1
    services.run_periodic_tasks()
    assert _count_rows(services.database, tables.decisions) == 1


SELECT = "/scheduler/v1/select_destinations"
FIRST, SECOND = "https://one.example/secret", "https://two.example/secret"


class NoticeOutbox:
    """A list of sent notices that rejects the notices to some addresses."""

    def __init__(self):
        self.sent, self.refused = [], set()

    def __call__(self, address, body):
        self.sent.append((address, body))
        if address in self.refused:
            raise ServiceFailed(f"{address} answered 503", service="webhook")

    def take_sent(self):
        sent, self.sent = self.sent, []
        return sent


@pytest.fixture
def outbox():
    return NoticeOutbox()


@pytest.fixture
def make_waiting_task(sqlite_url, make_app, outbox):
    """Return a function that creates a client and the task of its scheduler."""

    def build_task(clock=utcnow, **options):
        options = {
            "waiting_policies": ["default"],
            "waiting_webhook_urls": [FIRST],
            "waiting_webhook_attempts": 3,
            **options,
        }
        settings = make_settings(
            sqlite_url, **{f"scheduler__{name}": value for name, value in options.items()}
        )
        app = make_app(settings, clock=clock)
        return app, WaitingRequests(app.app.services.scheduler, outbox)

    return build_task


def record_failure(app, number=1, **fields):
    """Record a decision without a host and return its uuid."""
    fields = {"flavor": flavor(vcpus=8), **fields}
    answer = app.post_json(SELECT, {"request_spec": spec(instance(number), **fields)}, status=409)
    return answer.json["errors"][0]["decision"]


def add_host(app, name="cn7"):
    app.post_json("/scheduler/v1/compute_nodes", [report(name)])


def test_request_that_fits_is_notified_once(make_waiting_task, outbox):
    app, task = make_waiting_task()
    decision = record_failure(app)
    task.run_round()
    assert outbox.take_sent() == []
    add_host(app)
    task.run_round()
    ((address, body),) = outbox.take_sent()
    assert address == FIRST
    recorded = app.get(f"/scheduler/v1/decisions/{decision}").json
    assert body == {
        "event": "would_fit_now",
        "decision": decision,
        "created_at": recorded["created_at"],
        "policy": "default",
        "flavor": "m1",
        "project_id": "p1",
        "request_id": recorded["request_id"],
        "global_request_id": None,
        "stage": recorded["stage"],
        "instances": [{"uuid": instance(1), "host": "cn7"}],
    }
    task.run_round()
    assert outbox.take_sent() == []
    assert len(app.get("/scheduler/v1/decisions").json["decisions"]) == 1


def test_only_failed_addresses_are_notified_again(make_waiting_task, outbox, caplog):
    app, task = make_waiting_task(waiting_webhook_urls=[FIRST, SECOND, FIRST])
    decision = record_failure(app)
    add_host(app)
    outbox.refused = {SECOND}
    task.run_round()
    assert sorted(address for address, _ in outbox.take_sent()) == [FIRST, SECOND]
    assert (
        f"the webhook notice about decision {decision} was not delivered: {SECOND} answered 503"
        in caplog.text
    )
    task.run_round()
    assert [address for address, _ in outbox.take_sent()] == [SECOND]
    outbox.refused = set()
    task.run_round()
    assert [address for address, _ in outbox.take_sent()] == [SECOND]
    task.run_round()
    assert outbox.take_sent() == []


def test_notice_attempts_are_limited(make_waiting_task, outbox, caplog):
    app, task = make_waiting_task()
    decision = record_failure(app)
    add_host(app)
    outbox.refused = {FIRST}
    for _ in range(5):
        task.run_round()
    assert len(outbox.take_sent()) == 3
    assert f"the webhook notice about decision {decision} was not delivered after" in caplog.text


def test_notice_attempt_interrupted_by_a_crash_counts_towards_the_maximum(
    make_waiting_task, outbox
):
    app, task = make_waiting_task()
    record_failure(app)
    add_host(app)

    def send_and_interrupt(_address, _body):
        outbox.sent.append(None)
        raise KeyboardInterrupt

    task._send = send_and_interrupt
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            task.run_round()
    assert outbox.take_sent() == [None] * 3
    task._send = outbox
    task.run_round()
    assert outbox.take_sent() == []


def test_request_that_no_longer_fits_at_the_retry_is_not_notified(make_waiting_task, outbox):
    app, task = make_waiting_task()
    record_failure(app)
    add_host(app)
    outbox.refused = {FIRST}
    task.run_round()
    assert len(outbox.take_sent()) == 1
    app.post_json("/scheduler/v1/compute_nodes", [report("cn7", vcpus=1)])
    task.run_round()
    assert outbox.take_sent() == []


def test_failures_of_other_policies_or_beyond_the_maximum_age_are_not_evaluated(
    make_waiting_task, outbox
):
    clock_offset = timedelta()

    def clock():
        return utcnow() + clock_offset

    app, task = make_waiting_task(clock, waiting_max_age=3600)
    record_failure(app)
    add_host(app)
    other_app, other_task = make_waiting_task(clock, waiting_policies=["dense"])
    other_task.run_round()
    assert outbox.take_sent() == []
    task._lease.release()
    other_task._lease.release()
    clock_offset = timedelta(hours=2)
    task.run_round()
    assert outbox.take_sent() == []
    clock_offset = timedelta()
    task.run_round()
    assert len(outbox.take_sent()) == 1
    assert other_app.get("/scheduler/v1/policies").json["policies"]


def test_failed_request_of_a_joint_call_is_not_notified_later(make_waiting_task, outbox):
    app, task = make_waiting_task()
    requests = [{"request_spec": spec(instance(n), flavor=flavor(memory_mb=4096))} for n in (1, 2)]
    app.post_json("/scheduler/v1/compute_nodes", [report("cn7", memory_mb=4096)])
    answer = app.post_json(SELECT, {"requests": requests}, status=409)
    decision = answer.json["errors"][0]["decision"]
    recorded = app.get(f"/scheduler/v1/decisions/{decision}").json
    assert (recorded["outcome"], recorded["conditions"]["together"]) == ("no_valid_host", True)
    task.run_round()
    assert outbox.take_sent() == []


def test_unknown_policy_is_logged_once(make_waiting_task, caplog):
    _, task = make_waiting_task(waiting_policies=["defualt"])
    task.run_round()
    task.run_round()
    lines = [entry.getMessage() for entry in caplog.records if "waiting_policies" in entry.msg]
    (line,) = lines
    assert line == (
        "[scheduler] waiting_policies names 'defualt', but no policy has this name; did you mean "
        "'default'?"
    )


def test_request_of_a_deleted_group_is_skipped(make_waiting_task, outbox, caplog):
    app, task = make_waiting_task()
    body = {"server_group": {"name": "g", "policy": "affinity"}}
    headers = {"OpenStack-API-Version": "compute 2.96"}
    path = "/compute/v2.1/os-server-groups"
    group = app.post_json(path, body, headers=headers).json["server_group"]["id"]
    record_failure(app, 1, instance_group=group)
    second = record_failure(app, 2)
    app.delete(f"{path}/{group}", headers=headers)
    add_host(app)
    task.run_round()
    assert second in {body["decision"] for _, body in outbox.take_sent()}


def test_waiting_requests_are_evaluated_by_a_single_process(make_waiting_task, outbox):
    app, task = make_waiting_task()
    record_failure(app)
    add_host(app)
    other = Lease(app.app.services.database, "waiting requests", periodic.NOTICES_LEASE)
    assert other.is_held()
    task.run_round()
    assert outbox.take_sent() == []
    other.release()
    task.run_round()
    assert len(outbox.take_sent()) == 1


def test_round_stops_sending_notices_once_another_process_holds_the_lease(
    make_waiting_task, outbox, monkeypatch
):
    app, task = make_waiting_task()
    _, successor = make_waiting_task()
    decisions = {record_failure(app, number) for number in (1, 2)}
    add_host(app)
    held = iter([True, True, False])
    monkeypatch.setattr(task._lease, "is_held", lambda: next(held))
    task.run_round()
    ((_, first),) = outbox.take_sent()
    successor.run_round()
    ((_, second),) = outbox.take_sent()
    assert {first["decision"], second["decision"]} == decisions


@pytest.mark.parametrize(
    "options", [{"waiting_policies": []}, {"waiting_webhook_urls": []}, {}], ids=str
)
def test_waiting_round_runs_once_a_minute_unless_policies_or_urls_are_empty(
    make_waiting_task, outbox, options
):
    app, task = make_waiting_task(**options)
    record_failure(app)
    add_host(app)
    task()
    assert outbox.take_sent() == []  # not in the first minute
    task.pause = 3600.0
    task._next = 0.0
    for _ in range(3):
        task()
    join_threads(periodic.NOTICES_THREAD)
    assert len(outbox.take_sent()) == (0 if options else 1)


@pytest.mark.parametrize(
    "address",
    ["ftp://one.example/", "one.example", "javascript:alert(1)", "http://h:99999/", "http://:80/"],
)
def test_notice_address_must_be_an_http_url(sqlite_url, address):
    with pytest.raises(Exception, match="waiting_webhook_urls"):
        make_settings(sqlite_url, scheduler__waiting_webhook_urls=[address])
