# SPDX-License-Identifier: Apache-2.0
"""The RPC server of oslo.messaging for nova's calls, on the library's bus in memory."""

import logging
import re

import pytest

from placement_sched.config.options.services import import_oslo_messaging
from placement_sched.errors import ConfigurationError
from placement_sched.nova import messaging
from placement_sched.nova.messaging import ExpectedError, UnsupportedCall, build_target, expose
from tests.support.states import read_settings_text

OSLO_MESSAGING = import_oslo_messaging()


def build_bus_options(folder, *lines):
    return messaging.read_bus_options(read_settings_text(folder, "\n".join(("[DEFAULT]", *lines))))


@pytest.fixture(autouse=True)
def reset_library_options():
    yield
    OSLO_MESSAGING.LoggingNotificationHandler.CONF.clear()


def list_warnings(caplog):
    return [record for record in caplog.records if record.levelno > logging.INFO]


class GreetingEndpoint:
    """An RPC endpoint for these tests."""

    target = build_target("4.5")

    @expose
    def greet(self, context, name):
        return {"hello": name, "request": context["request_id"]}

    @expose
    def raise_key_error(self, _context, reason):
        raise KeyError(reason)

    @expose
    def raise_expected_error(self, _context):
        raise ExpectedError(ValueError("as is expected"))

    @expose
    def respond_later(self, _context):
        self.calls = getattr(self, "calls", 0) + 1
        if self.calls == 1:
            raise UnsupportedCall
        return self.calls

    def unexposed_method(self, _context):
        raise AssertionError("is not to be called")


@pytest.fixture(scope="module")
def rpc_client(tmp_path_factory):
    conf = build_bus_options(tmp_path_factory.mktemp("bus"), "transport_url = fake:/")
    transport = messaging.create_transport(conf)
    server = messaging.create_server(transport, "scheduler", "ctl1", [GreetingEndpoint()])
    server.start()
    yield OSLO_MESSAGING.get_rpc_client(
        OSLO_MESSAGING.get_rpc_transport(conf, allowed_remote_exmods=["oslo_messaging.exceptions"]),
        OSLO_MESSAGING.Target(topic="scheduler", version="4.0"),
    )
    server.stop()
    server.wait(timeout=60)
    transport.cleanup()


def test_call_is_answered_with_the_request_id_of_its_context(rpc_client):
    called = rpc_client.prepare(version="4.5", timeout=30)
    result = called.call({"request_id": "req-1"}, "greet", name="nova")
    assert result == {"hello": "nova", "request": "req-1"}


@pytest.mark.parametrize(
    ("version", "method", "sent", "words"),
    [
        ("4.5", "greet", {"nom": "nova"}, "unexpected keyword argument 'nom'"),
        ("4.5", "raise_key_error", {"reason": "no such key"}, "'no such key'"),
        ("4.5", "reboot", {}, "Endpoint does not support RPC method reboot"),
        ("4.5", "unexposed_method", {}, "Endpoint does not support RPC method unexposed_method"),
        ("4.6", "greet", {}, "Endpoint does not support RPC version 4.6"),
        ("5.0", "greet", {}, "Endpoint does not support RPC version 5.0"),
    ],
)
def test_failed_call_is_answered_and_logged_in_one_line(
    rpc_client, caplog, version, method, sent, words
):
    called = rpc_client.prepare(version=version, timeout=30)
    with pytest.raises(Exception, match=re.escape(words)):
        called.call({"request_id": "req-1"}, method, **sent)
    (line,) = list_warnings(caplog)
    assert line.getMessage().startswith(
        f"nova's call {method} {version} (request req-1) is rejected"
    )
    assert words in line.getMessage()
    assert line.exc_info is None


def test_expected_error_is_answered_and_not_logged(rpc_client, caplog):
    with pytest.raises(ValueError, match="as is expected"):
        rpc_client.prepare(version="4.5", timeout=30).call({}, "raise_expected_error")
    assert list_warnings(caplog) == []


@pytest.mark.parametrize(
    ("lines", "threads"), [((), messaging.THREADS), (("executor_thread_pool_size = 9",), 9)]
)
def test_rpc_worker_takes_no_more_messages_than_threads(tmp_path, lines, threads):
    conf = build_bus_options(tmp_path, "transport_url = fake:/", *lines)
    assert conf.executor_thread_pool_size == threads
    assert conf.oslo_messaging_rabbit.rabbit_qos_prefetch_count == threads
    assert conf.control_exchange == "nova"


def test_missing_transport_url_is_an_error(tmp_path):
    with pytest.raises(ConfigurationError, match=r"^\[DEFAULT\] transport_url is not set: "):
        build_bus_options(tmp_path, "host = ctl1")


@pytest.mark.parametrize("url", ["rabit://bus/", "nonsense", "rabbit://nova:secret@bus:port/"])
def test_invalid_transport_url_is_rejected_without_its_password(tmp_path, url):
    with pytest.raises(ConfigurationError, match=r"^\[DEFAULT\] transport_url: ") as wrong:
        messaging.create_transport(build_bus_options(tmp_path, f"transport_url = {url}"))
    assert "secret" not in wrong.value.detail


def test_bus_address_is_logged_without_its_password(tmp_path):
    text = "[DEFAULT]\ntransport_url = rabbit://nova:secret@bus1:5671,nova:s@bus2/cloud\n"
    settings = read_settings_text(tmp_path, text)
    assert messaging.describe_bus(settings) == "rabbit://bus1:5671,bus2:5672/cloud"


def test_unanswered_call_is_redelivered(rpc_client, caplog):
    assert rpc_client.prepare(version="4.5", timeout=30).call({}, "respond_later") == 2
    assert list_warnings(caplog) == []


def test_failed_reply_is_logged_in_one_line_and_the_call_redelivered(
    rpc_client, caplog, monkeypatch
):
    # An import at the top would load library modules that warn if this test runs alone.
    from oslo_messaging._drivers.impl_fake import FakeIncomingMessage

    send, taken = FakeIncomingMessage.reply, []

    def reply(message, *result, **failure):
        taken.append(message)
        if len(taken) == 1:
            raise OSLO_MESSAGING.MessageDeliveryFailure("the bus is away")
        send(message, *result, **failure)

    monkeypatch.setattr(FakeIncomingMessage, "reply", reply)
    called = rpc_client.prepare(version="4.5", timeout=30)
    assert called.call({"request_id": "req-1"}, "greet", name="nova")["hello"] == "nova"
    (line,) = list_warnings(caplog)
    assert line.getMessage() == "a reply cannot be sent: the bus is away"
    assert line.exc_info is None
    assert len(taken) == 2


@pytest.mark.parametrize(
    ("hosts", "words"),
    [
        (["cn2"], "selected cn2 for 1 instance (project"),
        (["cn2", "cn2"], "selected cn2 for 2 instances (project"),
        (["cn2", "cn1"], "selected cn2 and 1 other host for 2 instances (project"),
        (["cn2", "cn1", "cn3"], "selected cn2 and 2 other hosts for 3 instances (project"),
    ],
)
def test_log_line_of_a_selection_counts_hosts_and_instances(caplog, hosts, words):
    caplog.set_level(logging.INFO)
    fields = messaging.build_log_fields({}, "select_destinations", "succeeded", 0.1)
    messaging.log_selection({"project_id": "demo"}, hosts, fields)
    assert caplog.messages[-1].startswith(words)
