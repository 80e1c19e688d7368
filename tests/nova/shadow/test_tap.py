# SPDX-License-Identifier: Apache-2.0
"""The queue on nova's exchange, with a real RabbitMQ and oslo.messaging's own client."""

import json
import logging
import threading
from contextlib import contextmanager
from queue import Queue
from time import monotonic, sleep
from uuid import uuid4

import pytest

from placement_sched.errors import Unavailable
from placement_sched.nova.shadow import tap as tapping
from placement_sched.nova.shadow.tap import Tap, read_transport
from tests.nova.shadow.exchanges import Line, calling, waiting_in

pytestmark = pytest.mark.system

#: Seconds until a test gives up on a fact.
PATIENCE = 60


@pytest.fixture
def exchange():
    return f"nova-{uuid4().hex}"


@pytest.fixture
def caller(broker, exchange):
    with calling(broker, exchange) as one:
        yield one


@contextmanager
def tapped(url, exchange, handle):
    transport = read_transport([], url)
    own = type(transport)(transport.brokers, exchange, False, False, transport.heartbeat)
    tap = Tap(own, f"test-{uuid4().hex}", handle)
    thread = threading.Thread(target=tap.run)
    thread.start()
    try:
        assert tap.is_open.wait(PATIENCE)
        yield tap
    finally:
        tap.stop()
        thread.join(PATIENCE)
    assert not thread.is_alive()


def until(fact):
    deadline = monotonic() + PATIENCE
    while not fact():
        assert monotonic() < deadline
        sleep(0.02)


def method_of(body):
    return json.loads(body["oslo.message"])["method"]


def test_each_message_to_the_schedulers_is_copied(broker, exchange, caller):
    seen = Queue()
    with tapped(broker, exchange, seen.put):
        caller.send("select_destinations", {"request_id": "req-1"}, spec_obj={"a": 1})
        caller.send("ping")
        first, second = seen.get(timeout=PATIENCE), seen.get(timeout=PATIENCE)
    assert (method_of(first), method_of(second)) == ("select_destinations", "ping")
    assert json.loads(first["oslo.message"])["_context_request_id"] == "req-1"


def test_queue_says_what_it_is_and_is_deleted_with_its_reader(broker, exchange):
    with tapped(broker, exchange, print) as tap:
        assert tap.name.startswith("placement-sched.nova-shadow.test-")
        assert waiting_in(broker, tap.name) == 0
    assert waiting_in(broker, tap.name) is None


def test_no_more_wait_than_the_bound(monkeypatch, broker, exchange, caller):
    monkeypatch.setattr(tapping, "MOST", 10)
    stuck, first = threading.Event(), threading.Event()

    def handle(_body):
        first.set()
        stuck.wait(PATIENCE)

    with tapped(broker, exchange, handle) as tap:
        try:
            caller.send("ping")
            assert first.wait(PATIENCE)
            # What the broker hands out ahead is not waiting.
            for _ in range(100):
                caller.send("ping")
            until(lambda: waiting_in(broker, tap.name) == 10)
        finally:
            stuck.set()


def test_exchange_of_other_properties_is_used_as_it_is(broker, exchange):
    seen = Queue()
    transport = read_transport([], broker)
    durable = type(transport)(transport.brokers, exchange, True, False, transport.heartbeat)
    first = Tap(durable, f"test-{uuid4().hex}", seen.put)
    thread = threading.Thread(target=first.run)
    thread.start()
    assert first.is_open.wait(PATIENCE)
    with tapped(broker, exchange, seen.put) as second:
        assert waiting_in(broker, second.name) == 0
    first.stop()
    thread.join(PATIENCE)
    with calling(broker, exchange):
        pass


def test_body_that_cannot_be_decoded_is_handed_over_as_none(broker, exchange):
    from kombu import Connection, Producer

    seen = Queue()
    with tapped(broker, exchange, seen.put), Connection(broker.replace("rabbit", "amqp")) as there:
        producer = Producer(there.channel())
        odd = {"content_type": "application/json", "content_encoding": "utf-8"}
        producer.publish(b"\xff{", exchange=exchange, routing_key="scheduler", **odd)
        assert seen.get(timeout=PATIENCE) is None
    with calling(broker, exchange):
        pass


def test_message_whose_handling_fails_for_the_database_is_dropped(broker, exchange, caller, caplog):
    seen = Queue()

    def handle(body):
        seen.put(body)
        if seen.qsize() == 1:
            raise Unavailable("the database does not answer")

    with tapped(broker, exchange, handle):
        caller.send("ping")
        caller.send("ping")
        until(lambda: seen.qsize() == 2)
    assert "a request was not evaluated: the database does not answer" in caplog.text


def test_broker_that_goes_and_comes_back_is_one_line_each(broker, exchange, caller, caplog):
    caplog.set_level(logging.INFO)
    seen = Queue()
    line = Line(broker)
    with tapped(line.url, exchange, seen.put) as tap:
        caller.send("ping")
        seen.get(timeout=PATIENCE)
        line.cut()
        until(lambda: not tap.is_open.is_set())
        # More attempts to connect fail, and are not logged.
        until(lambda: "no connection to the message bus" in caplog.text)
        line.mend()
        assert tap.is_open.wait(PATIENCE)
        caller.send("select_destinations")
        assert method_of(seen.get(timeout=PATIENCE)) == "select_destinations"
    line.close()
    said = [one.message for one in caplog.records if one.name == tapping.__name__]
    assert len(said) == 2
    assert said[0].startswith("no connection to the message bus at 127.0.0.1:")
    assert said[1].startswith("the message bus is back")


def test_broker_that_is_away_at_the_start_is_waited_for(broker, exchange, caller, caplog):
    seen = Queue()
    line = Line(broker)
    line.cut()
    transport = read_transport([], line.url)
    own = type(transport)(transport.brokers, exchange, False, False, transport.heartbeat)
    tap = Tap(own, f"test-{uuid4().hex}", seen.put)
    thread = threading.Thread(target=tap.run)
    thread.start()
    until(lambda: "requests are missed" in caplog.text)
    line.mend()
    assert tap.is_open.wait(PATIENCE)
    caller.send("ping")
    assert seen.get(timeout=PATIENCE)
    tap.stop()
    thread.join(PATIENCE)
    line.close()
