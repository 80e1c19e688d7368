# SPDX-License-Identifier: Apache-2.0
"""Work that a process repeats.

Notices to clients about requests without a host that fit now.
"""

from datetime import timedelta
from threading import Event, Thread

import pytest
from sqlalchemy import func, insert, select, update
from sqlalchemy.exc import IntegrityError

from placement_sched.db import tables
from placement_sched.db.leases import Lease
from placement_sched.db.tables import allocations, provider_changes
from placement_sched.db.transaction import Database
from placement_sched.errors import ServiceFailed
from placement_sched.model.clock import utcnow
from placement_sched.operations import periodic
from placement_sched.operations.periodic import PAUSE, OldRowDeletion, PeriodicTask, WaitingRequests
from placement_sched.store import decisions
from placement_sched.store.placement import change_log
from tests.conftest import make_settings
from tests.store.decision_records import build_decision
from tests.support.clouds import NOW
from tests.support.concurrency import join_threads
from tests.support.scheduling import make_flavor, make_report, make_spec, make_uuid
from tests.support.statements import execute_statements, record_statements


class CountingTask(PeriodicTask):
    """A task that counts its rounds, and lets a test hold a caller before its round."""

    failure = "counting failed"

    def __init__(self, events=()):
        super().__init__()
        self.rounds = 0
        self._events_of_callers = list(events)

    def is_due(self):
        if self._events_of_callers:
            reached, go_on = self._events_of_callers.pop()
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

    def raise_runtime_error(_thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(periodic.Thread, "start", raise_runtime_error)
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
def monotonic_time(monkeypatch):
    moment = [0.0]
    monkeypatch.setattr(periodic, "monotonic", lambda: moment[0])
    return moment


def build_row_deletion(database, seconds=0, now=NOW):
    options = {"decision_retention": seconds, "trace_retention": 0}
    values = {f"scheduler__{name}": value for name, value in options.items()}
    settings = make_settings("sqlite://", **values)
    return OldRowDeletion(database, settings, lambda: now)


def run_row_deletion(retention):
    """Call the task, and wait for the thread of its round."""
    retention()
    join_threads(periodic.OLD_ROWS_THREAD)


def _count_rows(database, table):
    with database.read() as connection:
        return connection.scalars(select(func.count()).select_from(table)).one()


def _write_allocations(database, consumer):
    rows = [
        {"resource_provider_id": number, "resource_class_id": 0, "consumer_id": consumer, "used": 1}
        for number in range(1, 9)
    ]
    database.write(lambda connection: connection.execute(insert(allocations), rows))


def _make_provider_changes_old(connection):
    old = utcnow() - change_log.KEEP - timedelta(minutes=1)
    connection.execute(update(provider_changes).values(created_at=old))


def test_old_change_log_rows_are_deleted_once_a_minute(database_url, monotonic_time):
    database = Database(make_settings(database_url))
    log_retention = build_row_deletion(database)
    for consumer in ("one", "two"):
        _write_allocations(database, consumer)
        monotonic_time[0] += PAUSE + 1
        run_row_deletion(log_retention)
        database.write(_make_provider_changes_old)
    row_count = _count_rows(database, provider_changes)
    with record_statements(database) as seen:
        run_row_deletion(log_retention)
    assert seen == []
    monotonic_time[0] += PAUSE + 1
    run_row_deletion(log_retention)
    assert _count_rows(database, provider_changes) < row_count
    database.dispose()


def test_change_log_retention_without_a_log_sends_no_statement(database_url, monotonic_time):
    database = Database(make_settings(database_url, placement__providers_in_memory=False))
    log_retention = build_row_deletion(database)
    monotonic_time[0] += PAUSE + 1
    with record_statements(database) as seen:
        run_row_deletion(log_retention)
    assert seen == []
    database.dispose()


@pytest.mark.all_databases
def test_old_change_log_rows_are_deleted_by_a_single_process(database_url, monotonic_time):
    databases = [Database(make_settings(database_url)) for _ in range(2)]
    upkeeps = [build_row_deletion(database) for database in databases]
    monotonic_time[0] += PAUSE + 1
    rows = []
    for upkeep, database in zip(upkeeps, databases, strict=True):
        _write_allocations(database, str(len(rows)))
        database.write(_make_provider_changes_old)
        run_row_deletion(upkeep)
        rows.append(_count_rows(database, provider_changes))
    assert rows[0] == 1
    assert rows[1] > 1
    for database in databases:
        database.dispose()


def _record_decision(database, number, age):
    moment = NOW - timedelta(seconds=age)
    decision = build_decision(moment, number)
    database.write(lambda connection: decisions.record(connection, decision, moment))


@pytest.mark.all_databases
def test_expired_decisions_are_deleted_once_a_minute_in_batches(
    database, monotonic_time, monkeypatch
):
    monkeypatch.setattr(periodic, "_BATCH", 1)
    for number, age in enumerate((61, 62, 63, 59)):
        _record_decision(database, number, age)
    retention = build_row_deletion(database, seconds=60)
    run_row_deletion(retention)
    assert _count_rows(database, tables.decisions) == 4
    monotonic_time[0] += PAUSE + 1
    run_row_deletion(retention)
    assert _count_rows(database, tables.decisions) == 1


def test_retention_of_0_keeps_all_decisions(database):
    _record_decision(database, 1, age=10**8)
    build_row_deletion(database, seconds=0).run_round()
    assert _count_rows(database, tables.decisions) == 1


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_old_rows_are_deleted_after_decisions_cannot_be_deleted(database_url):
    database = Database(make_settings(database_url))
    _record_decision(database, 1, age=61)
    _write_allocations(database, "one")
    database.write(_make_provider_changes_old)
    row_count = _count_rows(database, provider_changes)
    trigger = "BEGIN SELECT RAISE(ABORT, 'decisions are kept'); END"
    execute_statements(
        database, f"CREATE TRIGGER kept BEFORE DELETE ON {tables.decisions.name} {trigger}"
    )
    with pytest.raises(IntegrityError, match="decisions are kept"):
        build_row_deletion(database, seconds=60).run_round()
    assert _count_rows(database, tables.decisions) == 1
    assert _count_rows(database, provider_changes) < row_count
    database.dispose()


def test_service_deletes_decisions_after_the_configured_retention(
    make_app, sqlite_url, monotonic_time
):
    app = make_app(make_settings(sqlite_url, scheduler__decision_retention=3600), clock=lambda: NOW)
    services = app.app.services
    services.ready()
    for number, age in enumerate((3601, 3599)):
        _record_decision(services.database, number, age)
    monotonic_time[0] += PAUSE + 1
    services.run_periodic_tasks()
    join_threads(periodic.OLD_ROWS_THREAD)
    assert _count_rows(services.database, tables.decisions) == 1


def test_service_deletes_the_ends_of_instances_after_the_trace_retention(
    make_app, sqlite_url, monotonic_time
):
    options = {"scheduler__decision_retention": 0, "scheduler__trace_retention": 3600}
    app = make_app(make_settings(sqlite_url, **options), clock=lambda: NOW)
    services = app.app.services
    services.ready()
    rows = [
        {"uuid": make_uuid(age), "ended_at": NOW - timedelta(seconds=age)} for age in (3601, 3599)
    ]
    services.database.write(
        lambda connection: connection.execute(insert(tables.ended_instances), rows)
    )
    monotonic_time[0] += PAUSE + 1
    services.run_periodic_tasks()
    join_threads(periodic.OLD_ROWS_THREAD)
    assert _count_rows(services.database, tables.ended_instances) == 1


SELECT_DESTINATIONS_PATH = "/scheduler/v1/select_destinations"
FIRST_WEBHOOK_URL, SECOND_WEBHOOK_URL = "https://one.example/secret", "https://two.example/secret"


class WebhookOutbox:
    """A list of sent notices that rejects the notices to some addresses."""

    def __init__(self):
        self.sent, self.failing_addresses = [], set()

    def __call__(self, address, body):
        self.sent.append((address, body))
        if address in self.failing_addresses:
            raise ServiceFailed(f"{address} answered 503", service="webhook")

    def take_sent_notices(self):
        sent, self.sent = self.sent, []
        return sent


@pytest.fixture
def webhook_outbox():
    return WebhookOutbox()


@pytest.fixture
def make_waiting_task(sqlite_url, make_app, webhook_outbox):
    """Return a function that creates a client and the task of its scheduler."""

    def build_client_and_task(clock=utcnow, **options):
        options = {
            "waiting_policies": ["default"],
            "waiting_webhook_urls": [FIRST_WEBHOOK_URL],
            "waiting_webhook_attempts": 3,
            **options,
        }
        settings = make_settings(
            sqlite_url, **{f"scheduler__{name}": value for name, value in options.items()}
        )
        app = make_app(settings, clock=clock)
        return app, WaitingRequests(app.app.services.scheduler, webhook_outbox)

    return build_client_and_task


def record_decision_without_host(app, number=1, **fields):
    """Record a decision without a host and return its uuid."""
    fields = {"flavor": make_flavor(vcpus=8), **fields}
    response = app.post_json(
        SELECT_DESTINATIONS_PATH,
        {"request_spec": make_spec(make_uuid(number), **fields)},
        status=409,
    )
    return response.json["errors"][0]["decision"]


def report_host(app, name="cn7"):
    app.post_json("/scheduler/v1/compute_nodes", [make_report(name)])


def test_waiting_request_that_fits_is_notified_once(make_waiting_task, webhook_outbox):
    app, task = make_waiting_task()
    decision = record_decision_without_host(app)
    task.run_round()
    assert webhook_outbox.take_sent_notices() == []
    report_host(app)
    task.run_round()
    ((address, body),) = webhook_outbox.take_sent_notices()
    assert address == FIRST_WEBHOOK_URL
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
        "reason_kind": recorded["reason_kind"],
        "reason_subject": recorded["reason_subject"],
        "instances": [{"uuid": make_uuid(1), "host": "cn7"}],
    }
    task.run_round()
    assert webhook_outbox.take_sent_notices() == []
    assert len(app.get("/scheduler/v1/decisions").json["decisions"]) == 1


def test_webhook_notice_is_repeated_to_failed_addresses(make_waiting_task, webhook_outbox, caplog):
    app, task = make_waiting_task(
        waiting_webhook_urls=[FIRST_WEBHOOK_URL, SECOND_WEBHOOK_URL, FIRST_WEBHOOK_URL]
    )
    decision = record_decision_without_host(app)
    report_host(app)
    webhook_outbox.failing_addresses = {SECOND_WEBHOOK_URL}
    task.run_round()
    assert sorted(address for address, _ in webhook_outbox.take_sent_notices()) == [
        FIRST_WEBHOOK_URL,
        SECOND_WEBHOOK_URL,
    ]
    assert (
        f"the webhook notice about decision {decision} was not delivered: "
        f"{SECOND_WEBHOOK_URL} answered 503" in caplog.text
    )
    task.run_round()
    assert [address for address, _ in webhook_outbox.take_sent_notices()] == [SECOND_WEBHOOK_URL]
    webhook_outbox.failing_addresses = set()
    task.run_round()
    assert [address for address, _ in webhook_outbox.take_sent_notices()] == [SECOND_WEBHOOK_URL]
    task.run_round()
    assert webhook_outbox.take_sent_notices() == []


def test_webhook_notice_attempts_are_limited(make_waiting_task, webhook_outbox, caplog):
    app, task = make_waiting_task()
    decision = record_decision_without_host(app)
    report_host(app)
    webhook_outbox.failing_addresses = {FIRST_WEBHOOK_URL}
    for _ in range(5):
        task.run_round()
    assert len(webhook_outbox.take_sent_notices()) == 3
    assert f"the webhook notice about decision {decision} was not delivered in" in caplog.text


def test_webhook_notice_attempt_interrupted_by_a_crash_counts(make_waiting_task, webhook_outbox):
    app, task = make_waiting_task()
    record_decision_without_host(app)
    report_host(app)

    def raise_keyboard_interrupt(_address, _body):
        webhook_outbox.sent.append(None)
        raise KeyboardInterrupt

    task._send = raise_keyboard_interrupt
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            task.run_round()
    assert webhook_outbox.take_sent_notices() == [None] * 3
    task._send = webhook_outbox
    task.run_round()
    assert webhook_outbox.take_sent_notices() == []


def test_waiting_request_that_no_longer_fits_is_not_notified(make_waiting_task, webhook_outbox):
    app, task = make_waiting_task()
    record_decision_without_host(app)
    report_host(app)
    webhook_outbox.failing_addresses = {FIRST_WEBHOOK_URL}
    task.run_round()
    assert len(webhook_outbox.take_sent_notices()) == 1
    app.post_json("/scheduler/v1/compute_nodes", [make_report("cn7", vcpus=1)])
    task.run_round()
    assert webhook_outbox.take_sent_notices() == []


def test_old_waiting_requests_or_of_other_policies_are_ignored(make_waiting_task, webhook_outbox):
    clock_offset = timedelta()

    def clock():
        return utcnow() + clock_offset

    app, task = make_waiting_task(clock, waiting_max_age=3600)
    record_decision_without_host(app)
    report_host(app)
    other_app, other_task = make_waiting_task(clock, waiting_policies=["dense"])
    other_task.run_round()
    assert webhook_outbox.take_sent_notices() == []
    task._lease.release()
    other_task._lease.release()
    clock_offset = timedelta(hours=2)
    task.run_round()
    assert webhook_outbox.take_sent_notices() == []
    clock_offset = timedelta()
    task.run_round()
    assert len(webhook_outbox.take_sent_notices()) == 1
    assert other_app.get("/scheduler/v1/policies").json["policies"]


def test_waiting_request_sent_with_others_is_not_notified(make_waiting_task, webhook_outbox):
    app, task = make_waiting_task()
    requests = [
        {"request_spec": make_spec(make_uuid(n), flavor=make_flavor(memory_mb=4096))}
        for n in (1, 2)
    ]
    app.post_json("/scheduler/v1/compute_nodes", [make_report("cn7", memory_mb=4096)])
    response = app.post_json(SELECT_DESTINATIONS_PATH, {"requests": requests}, status=409)
    decision = response.json["errors"][0]["decision"]
    recorded = app.get(f"/scheduler/v1/decisions/{decision}").json
    assert (recorded["outcome"], recorded["conditions"]["together"]) == ("no_valid_host", True)
    task.run_round()
    assert webhook_outbox.take_sent_notices() == []


def test_unknown_waiting_policy_is_logged_once(make_waiting_task, caplog):
    _, task = make_waiting_task(waiting_policies=["defualt"])
    task.run_round()
    task.run_round()
    lines = [entry.getMessage() for entry in caplog.records if "waiting_policies" in entry.msg]
    (line,) = lines
    assert line == (
        "[scheduler] waiting_policies names 'defualt', but no policy has this name. Did you mean "
        "'default'?"
    )


def test_waiting_request_of_a_deleted_group_is_skipped(make_waiting_task, webhook_outbox, caplog):
    app, task = make_waiting_task()
    body = {"server_group": {"name": "g", "policy": "affinity"}}
    headers = {"OpenStack-API-Version": "compute 2.96"}
    path = "/compute/v2.1/os-server-groups"
    group = app.post_json(path, body, headers=headers).json["server_group"]["id"]
    record_decision_without_host(app, 1, instance_group=group)
    second_decision = record_decision_without_host(app, 2)
    app.delete(f"{path}/{group}", headers=headers)
    report_host(app)
    task.run_round()
    assert second_decision in {body["decision"] for _, body in webhook_outbox.take_sent_notices()}


def test_waiting_requests_are_evaluated_by_a_single_process(make_waiting_task, webhook_outbox):
    app, task = make_waiting_task()
    record_decision_without_host(app)
    report_host(app)
    other_lease = Lease(app.app.services.database, "waiting requests", periodic.NOTICES_LEASE)
    assert other_lease.is_held()
    task.run_round()
    assert webhook_outbox.take_sent_notices() == []
    other_lease.release()
    task.run_round()
    assert len(webhook_outbox.take_sent_notices()) == 1


def test_webhook_notices_stop_if_another_process_has_the_lease(make_waiting_task, webhook_outbox):
    app, task = make_waiting_task()
    _, successor = make_waiting_task()
    decisions = {record_decision_without_host(app, number) for number in (1, 2)}
    report_host(app)

    def send_notice_and_hand_over_lease(address, body):
        webhook_outbox(address, body)
        task._lease.release()
        assert successor._lease.is_held()

    task._send = send_notice_and_hand_over_lease
    task.run_round()
    ((_, first),) = webhook_outbox.take_sent_notices()
    successor.run_round()
    ((_, second),) = webhook_outbox.take_sent_notices()
    assert {first["decision"], second["decision"]} == decisions


@pytest.mark.parametrize(
    "options", [{"waiting_policies": []}, {"waiting_webhook_urls": []}, {}], ids=str
)
def test_waiting_requests_are_evaluated_once_a_minute_if_configured(
    make_waiting_task, webhook_outbox, options
):
    app, task = make_waiting_task(**options)
    record_decision_without_host(app)
    report_host(app)
    task()
    assert webhook_outbox.take_sent_notices() == []  # not in the first minute
    task.pause = 3600.0
    task._next = 0.0
    for _ in range(3):
        task()
    join_threads(periodic.NOTICES_THREAD)
    assert len(webhook_outbox.take_sent_notices()) == (0 if options else 1)


@pytest.mark.parametrize(
    "address",
    ["ftp://one.example/", "one.example", "javascript:alert(1)", "http://h:99999/", "http://:80/"],
)
def test_webhook_address_must_be_an_http_url(sqlite_url, address):
    with pytest.raises(Exception, match="waiting_webhook_urls"):
        make_settings(sqlite_url, scheduler__waiting_webhook_urls=[address])
