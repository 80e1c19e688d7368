# SPDX-License-Identifier: Apache-2.0
"""The queue on nova's exchange, with a real RabbitMQ and oslo.messaging's client."""

import json
import logging
import threading
from contextlib import contextmanager
from dataclasses import replace
from queue import Queue
from time import monotonic, sleep
from uuid import uuid4

import pytest
from kombu import Connection, Producer

from placement_sched.errors import Unavailable
from placement_sched.nova.shadow import tap as tapping
from placement_sched.nova.shadow.tap import Tap, read_transport
from tests.nova.shadow.exchanges import BrokerProxy, count_messages, run_caller

pytestmark = pytest.mark.system

#: Seconds until a wait fails.
TIMEOUT = 60


@pytest.fixture
def exchange():
    return f"nova-{uuid4().hex}"


@pytest.fixture
def rpc_caller(broker, exchange):
    with run_caller(broker, exchange) as caller:
        yield caller


@contextmanager
def run_tap(url, exchange, handle, *, is_durable=False):
    bus = replace(read_transport([], url), exchange=exchange, is_durable=is_durable)
    tap = Tap(bus, f"test-{uuid4().hex}", handle)
    thread = threading.Thread(target=tap.run)
    thread.start()
    try:
        assert tap.is_open.wait(TIMEOUT)
        yield tap
    finally:
        tap.stop()
        thread.join(TIMEOUT)
    assert not thread.is_alive()


def wait_until_true(fact):
    deadline = monotonic() + TIMEOUT
    while not fact():
        assert monotonic() < deadline
        sleep(0.02)


def read_method(body):
    return json.loads(body["oslo.message"])["method"]


def test_each_message_to_the_schedulers_is_copied(broker, exchange, rpc_caller):
    seen = Queue()
    with run_tap(broker, exchange, seen.put):
        rpc_caller.send("select_destinations", {"request_id": "req-1"}, spec_obj={"a": 1})
        rpc_caller.send("ping")
        first, second = seen.get(timeout=TIMEOUT), seen.get(timeout=TIMEOUT)
    assert (read_method(first), read_method(second)) == ("select_destinations", "ping")
    assert json.loads(first["oslo.message"])["_context_request_id"] == "req-1"


def test_tap_queue_is_named_nova_shadow_and_deleted_with_its_consumer(broker, exchange):
    with run_tap(broker, exchange, print) as tap:
        assert tap.name.startswith("placement-sched.nova-shadow.test-")
        assert count_messages(broker, tap.name) == 0
    assert count_messages(broker, tap.name) is None


def test_length_of_the_tap_queue_is_limited(monkeypatch, broker, exchange, rpc_caller):
    monkeypatch.setattr(tapping, "MAX_MESSAGES", 10)
    stuck, first = threading.Event(), threading.Event()

    def handle(_body):
        first.set()
        stuck.wait(TIMEOUT)

    with run_tap(broker, exchange, handle) as tap:
        try:
            rpc_caller.send("ping")
            assert first.wait(TIMEOUT)
            # Messages that the broker has sent ahead do not count.
            for _ in range(100):
                rpc_caller.send("ping")
            wait_until_true(lambda: count_messages(broker, tap.name) == 10)
        finally:
            stuck.set()


@pytest.mark.usefixtures("rpc_caller")
def test_tap_uses_an_existing_exchange_with_different_properties(broker, exchange):
    with (
        run_tap(broker, exchange, print, is_durable=True),
        run_tap(broker, exchange, print) as second,
    ):
        assert count_messages(broker, second.name) == 0


@pytest.mark.usefixtures("rpc_caller")
def test_undecodable_body_is_passed_as_none(broker, exchange):
    seen = Queue()
    with run_tap(broker, exchange, seen.put), Connection(broker.replace("rabbit", "amqp")) as there:
        producer = Producer(there.channel())
        odd = {"content_type": "application/json", "content_encoding": "utf-8"}
        producer.publish(b"\xff{", exchange=exchange, routing_key="scheduler", **odd)
        assert seen.get(timeout=TIMEOUT) is None


def test_message_is_dropped_after_a_database_error(broker, exchange, rpc_caller, caplog):
    seen = Queue()

    def handle(body):
        seen.put(body)
        if seen.qsize() == 1:
            raise Unavailable("the database does not answer")

    with run_tap(broker, exchange, handle):
        rpc_caller.send("ping")
        rpc_caller.send("ping")
        wait_until_true(lambda: seen.qsize() == 2)
    assert "a request was not evaluated: the database does not answer" in caplog.text


def test_loss_and_return_of_the_broker_are_logged_once_each(broker, exchange, rpc_caller, caplog):
    caplog.set_level(logging.INFO)
    seen = Queue()
    line = BrokerProxy(broker)
    with run_tap(line.url, exchange, seen.put) as tap:
        rpc_caller.send("ping")
        seen.get(timeout=TIMEOUT)
        line.cut()
        wait_until_true(lambda: not tap.is_open.is_set())
        # Further attempts to connect fail without a log line.
        wait_until_true(lambda: "no connection to the message bus" in caplog.text)
        line.restore()
        assert tap.is_open.wait(TIMEOUT)
        rpc_caller.send("select_destinations")
        assert read_method(seen.get(timeout=TIMEOUT)) == "select_destinations"
    line.close()
    messages = [record.message for record in caplog.records if record.name == tapping.__name__]
    assert len(messages) == 2
    assert messages[0].startswith("no connection to the message bus at 127.0.0.1:")
    assert messages[1].startswith("the message bus is back")
