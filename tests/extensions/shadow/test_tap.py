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
from placement_sched.extensions.shadow import tap as tapping
from placement_sched.extensions.shadow.tap import Tap
from placement_sched.nova.message_bus import read_transport
from tests.extensions.shadow.exchanges import BrokerProxy, count_messages, run_conductor_on_exchange

pytestmark = pytest.mark.system

#: Seconds until a wait fails.
WAIT_SECONDS = 60


@pytest.fixture
def exchange_name():
    return f"nova-{uuid4().hex}"


@pytest.fixture
def conductor(broker, exchange_name):
    with run_conductor_on_exchange(broker, exchange_name) as caller:
        yield caller


@contextmanager
def run_tap(url, exchange_name, handle, *, is_durable=False):
    bus = replace(read_transport([], url), exchange=exchange_name, is_durable=is_durable)
    tap = Tap(bus, f"test-{uuid4().hex}", handle)
    thread = threading.Thread(target=tap.run)
    thread.start()
    try:
        assert tap.is_open.wait(WAIT_SECONDS)
        yield tap
    finally:
        tap.stop()
        thread.join(WAIT_SECONDS)
    assert not thread.is_alive()


def wait_until_true(fact):
    deadline = monotonic() + WAIT_SECONDS
    while not fact():
        assert monotonic() < deadline
        sleep(0.02)


def read_method_of_message(body):
    return json.loads(body["oslo.message"])["method"]


def test_each_message_to_the_schedulers_is_copied(broker, exchange_name, conductor):
    seen = Queue()
    with run_tap(broker, exchange_name, seen.put):
        conductor.cast("select_destinations", {"request_id": "req-1"}, spec_obj={"a": 1})
        conductor.cast("ping")
        first, second = seen.get(timeout=WAIT_SECONDS), seen.get(timeout=WAIT_SECONDS)
    assert (read_method_of_message(first), read_method_of_message(second)) == (
        "select_destinations",
        "ping",
    )
    assert json.loads(first["oslo.message"])["_context_request_id"] == "req-1"


def test_tap_queue_is_named_nova_shadow_and_deleted_with_its_consumer(broker, exchange_name):
    with run_tap(broker, exchange_name, print) as tap:
        assert tap.name.startswith("placement-sched.nova-shadow.test-")
        assert count_messages(broker, tap.name) == 0
    assert count_messages(broker, tap.name) is None


def test_length_of_the_tap_queue_is_limited(monkeypatch, broker, exchange_name, conductor):
    monkeypatch.setattr(tapping, "MAX_MESSAGES", 10)
    stuck, first = threading.Event(), threading.Event()

    def handle(_body):
        first.set()
        stuck.wait(WAIT_SECONDS)

    with run_tap(broker, exchange_name, handle) as tap:
        try:
            conductor.cast("ping")
            assert first.wait(WAIT_SECONDS)
            # Messages that the broker has sent ahead do not count.
            for _ in range(100):
                conductor.cast("ping")
            wait_until_true(lambda: count_messages(broker, tap.name) == 10)
        finally:
            stuck.set()


@pytest.mark.usefixtures("conductor")
def test_tap_uses_an_existing_exchange_with_different_properties(broker, exchange_name):
    with (
        run_tap(broker, exchange_name, print, is_durable=True),
        run_tap(broker, exchange_name, print) as second,
    ):
        assert count_messages(broker, second.name) == 0


@pytest.mark.usefixtures("conductor")
def test_undecodable_body_is_passed_as_none(broker, exchange_name):
    seen = Queue()
    with (
        run_tap(broker, exchange_name, seen.put),
        Connection(broker.replace("rabbit", "amqp")) as there,
    ):
        producer = Producer(there.channel())
        odd = {"content_type": "application/json", "content_encoding": "utf-8"}
        producer.publish(b"\xff{", exchange=exchange_name, routing_key="scheduler", **odd)
        assert seen.get(timeout=WAIT_SECONDS) is None


def test_message_is_dropped_after_a_database_error(broker, exchange_name, conductor, caplog):
    seen = Queue()

    def handle(body):
        seen.put(body)
        if seen.qsize() == 1:
            raise Unavailable("the database does not answer")

    with run_tap(broker, exchange_name, handle):
        conductor.cast("ping")
        conductor.cast("ping")
        wait_until_true(lambda: seen.qsize() == 2)
    assert "a request was not evaluated: the database does not answer" in caplog.text


def test_loss_and_return_of_the_broker_are_logged_once_each(
    broker, exchange_name, conductor, caplog
):
    caplog.set_level(logging.INFO)
    seen = Queue()
    line = BrokerProxy(broker)
    with run_tap(line.url, exchange_name, seen.put) as tap:
        conductor.cast("ping")
        seen.get(timeout=WAIT_SECONDS)
        line.cut_connections()
        wait_until_true(lambda: not tap.is_open.is_set())
        # Further attempts to connect fail without a log line.
        wait_until_true(lambda: "no connection to the message bus" in caplog.text)
        line.accept_connections()
        assert tap.is_open.wait(WAIT_SECONDS)
        conductor.cast("select_destinations")
        assert read_method_of_message(seen.get(timeout=WAIT_SECONDS)) == "select_destinations"
    line.close()
    messages = [record.message for record in caplog.records if record.name == tapping.__name__]
    assert len(messages) == 2
    assert messages[0].startswith("no connection to the message bus at 127.0.0.1:")
    assert messages[1].startswith("the message bus is back")
