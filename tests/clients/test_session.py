# SPDX-License-Identifier: Apache-2.0
"""Clients of other services from keystoneauth's options in a group.

Notices over HTTP that are accepted, rejected, redirected or not answered.
"""

import json
import socket

import pytest

from placement_sched.clients import session
from placement_sched.config.conf import read_files
from placement_sched.config.settings import Settings
from placement_sched.errors import ConfigurationError, ServiceFailed
from placement_sched.model.request_spec import Port
from placement_sched.scheduler.plugins import make_full_conf
from placement_sched.scheduler.request import create_neutron_client
from tests.support import identity, neutron
from tests.support.loopback import reserve_port, serve_application

PORT_ID, NETWORK_ID = "aaaaaaaa-0000-4000-8000-000000000001", "aaaaaaaa-0000-4000-8000-000000000002"
PASSWORD_OPTIONS = {
    "auth_type": "password",
    "username": identity.USER,
    "password": identity.PASSWORD,
    "project_name": "service",
    "user_domain_name": "Default",
    "project_domain_name": "Default",
    "region_name": "here",
    "http_retries": "0",
}


@pytest.fixture
def make_neutron(tmp_path):
    """Give a function that returns the neutron client of a file with these groups."""

    def read_conf_and_make_client(options, **groups):
        file = tmp_path / "a.conf"
        sections = {"neutron": options, **groups}
        file.write_text(
            "".join(
                f"[{group}]\n" + "".join(f"{name} = {each}\n" for name, each in members.items())
                for group, members in sections.items()
            )
        )
        return create_neutron_client(Settings.from_conf(read_files(make_full_conf(), [str(file)])))

    return read_conf_and_make_client


@pytest.fixture
def keystone():
    with identity.run_keystone() as service:
        yield service


@pytest.fixture
def neutron_service():
    with neutron.run_neutron() as service:
        service.add_port(PORT_ID, NETWORK_ID)
        yield service


def test_neutron_client_is_none_without_endpoint_or_auth_options(make_neutron):
    assert make_neutron({}) is make_neutron({"region_name": "here", "timeout": "5"}) is None


def test_neutron_client_without_auth_options_sends_no_token(make_neutron, neutron_service):
    assert make_neutron({"endpoint_override": neutron_service.url}).find_port(PORT_ID) == Port(
        network_id=NETWORK_ID
    )


def test_neutron_client_uses_catalogue_endpoint_and_token(make_neutron, keystone, neutron_service):
    keystone.services["network"] = neutron_service.url
    client = make_neutron({**PASSWORD_OPTIONS, "auth_url": f"{keystone.url}/v3"})
    assert client.find_port(PORT_ID) == Port(network_id=NETWORK_ID)
    assert neutron_service.tokens[0] in keystone._tokens


def test_auth_section_option_names_the_group_of_auth_options(
    make_neutron, keystone, neutron_service
):
    keystone.services["network"] = neutron_service.url
    elsewhere = {**PASSWORD_OPTIONS, "auth_url": f"{keystone.url}/v3"}
    client = make_neutron({"auth_section": "both", "region_name": "here"}, both=elsewhere)
    assert client.find_port(PORT_ID) == Port(network_id=NETWORK_ID)


def test_deprecated_names_of_keystone_auth_options_are_accepted(
    make_neutron, keystone, neutron_service
):
    keystone.services["network"] = neutron_service.url
    options = {**PASSWORD_OPTIONS, "auth_url": f"{keystone.url}/v3"}
    options["tenant_name"], options["user_name"] = options.pop("project_name"), identity.USER
    del options["username"]
    assert make_neutron(options).find_port(PORT_ID) == Port(network_id=NETWORK_ID)


def test_invalid_neutron_options_are_reported_by_the_first_request(
    make_neutron, keystone, neutron_service
):
    keystone.services["network"] = neutron_service.url
    for changes, words in (
        ({"password": "wrong"}, "401"),
        ({"region_name": "elsewhere"}, "network"),
        ({"endpoint_override": "https://127.0.0.1:1", "cafile": "/absent.pem"}, "/absent.pem"),
        ({"auth_url": "http://127.0.0.1:1/v3"}, "network: "),
    ):
        client = make_neutron({**PASSWORD_OPTIONS, "auth_url": f"{keystone.url}/v3", **changes})
        with pytest.raises(ServiceFailed) as failure:
            client.find_port(PORT_ID)
        assert words in failure.value.detail
        assert "\n" not in failure.value.detail, words


def test_invalid_neutron_auth_options_are_a_configuration_error(make_neutron):
    for options, words in (
        ({"auth_type": "nonsense"}, "nonsense"),
        ({"auth_type": "password"}, "auth_url"),
        ({"endpoint_override": "http://x", "valid_interfaces": "inner"}, "valid_interfaces"),
        ({"endpoint_override": "http://x", "version": "2", "min_version": "1"}, "version is"),
    ):
        with pytest.raises(ConfigurationError) as failure:
            make_neutron(options)
        assert failure.value.detail.startswith("[neutron]")
        assert words in failure.value.detail


WEBHOOK_BODY = {"event": "would_fit_now", "decision": "d1"}


class WebhookReceiver:
    """An application that records requests and responses with a status."""

    def __init__(self, status="204 No Content", headers=()):
        self.status, self.headers = status, list(headers)
        self.requests = []

    def __call__(self, environ, start_response):
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        line = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}"
        self.requests.append((line, environ.get("HTTP_X_AUTH_TOKEN"), body))
        start_response(self.status, self.headers)
        return [b""]


def send_webhook_and_get_failure(address):
    with pytest.raises(ServiceFailed) as failure:
        session.send_webhook(address, WEBHOOK_BODY)
    return failure.value.detail


def test_webhook_body_is_posted_without_a_token():
    receiver = WebhookReceiver()
    with serve_application(receiver) as url:
        session.send_webhook(f"{url}/hooks/secret", WEBHOOK_BODY)
    ((line, token, body),) = receiver.requests
    assert (line, token, json.loads(body)) == ("POST /hooks/secret", None, WEBHOOK_BODY)


def test_webhook_with_an_error_status_is_not_retried():
    receiver = WebhookReceiver()
    with serve_application(receiver) as url:
        for receiver.status in ("400 Bad Request", "503 Service Unavailable"):
            assert (
                send_webhook_and_get_failure(f"{url}/secret")
                == f"{url} answered {receiver.status[:3]}"
            )
    assert len(receiver.requests) == 2


def test_redirect_of_a_webhook_is_not_followed():
    redirect_target = WebhookReceiver()
    with serve_application(redirect_target) as target:
        receiver = WebhookReceiver("307 Temporary Redirect", [("Location", target)])
        with serve_application(receiver) as url:
            assert send_webhook_and_get_failure(url) == f"{url} answered 307"
    assert redirect_target.requests == []


def test_webhook_failure_names_the_address_without_its_path():
    with reserve_port() as holder:
        url = f"http://127.0.0.1:{holder.getsockname()[1]}"
        detail = send_webhook_and_get_failure(f"{url}/secret")
    assert detail == f"{url} does not answer: Connection refused"


def test_webhook_to_an_address_without_response_times_out(monkeypatch):
    monkeypatch.setattr(session, "WEBHOOK_TIMEOUT", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        detail = send_webhook_and_get_failure(f"http://127.0.0.1:{silent.getsockname()[1]}/secret")
    assert "does not answer" in detail
    assert "secret" not in detail


def test_shown_webhook_address_has_no_user_and_path():
    assert session.format_address("https://user:word@hooks.example:8443/secret?a=b") == (
        "https://hooks.example:8443"
    )
    assert session.compute_webhook_digest("https://a/1") != session.compute_webhook_digest(
        "https://a/2"
    )
