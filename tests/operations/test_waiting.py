# SPDX-License-Identifier: Apache-2.0
"""Notices to clients about requests without a host that fit now."""

from datetime import timedelta

import pytest

from placement_sched.db.leases import Lease
from placement_sched.errors import ServiceFailed
from placement_sched.model.clock import utcnow
from placement_sched.operations import periodic
from placement_sched.operations.periodic import WaitingRequests
from tests.conftest import make_settings
from tests.support.concurrency import join_threads
from tests.support.scheduling import flavor, instance, report, spec

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
