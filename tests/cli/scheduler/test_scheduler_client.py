# SPDX-License-Identifier: Apache-2.0
"""The client of ``/scheduler/v1``."""

import json
import socket
import ssl
import threading

import pytest
import trustme
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token

from placement_sched.api.in_process import make_adapter
from placement_sched.api.scheduler import hosts
from placement_sched.cli.main import main
from placement_sched.cli.scheduler.scheduler_client import SchedulerClient
from placement_sched.errors import Invalid, Unavailable
from tests.cli.scheduler.change_files import NON_UTF8_ARGUMENT
from tests.support.loopback import serve_application
from tests.support.scheduling import make_report

pytestmark = pytest.mark.slow


def build_scheduler_client(url: str, **options: float) -> SchedulerClient:
    return SchedulerClient(Adapter(Session(Token(url, "admin")), endpoint_override=url), **options)


def test_aggregate_names_are_empty_if_the_scheduler_server_is_unreachable():
    assert build_scheduler_client("http://127.0.0.1:1").map_aggregate_names() == {}


def test_scheduler_client_timeout_says_the_server_may_still_be_working():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        base = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(Unavailable) as error:
            build_scheduler_client(base, timeout=0.2).post("explain", body={})
    assert error.value.detail == (
        f"{base} did not answer within 0.2 s and may still process the request: "
        "increase --timeout SECONDS"
    )


def respond_with_path_info(environ, start_response):
    """Respond with the path of the request."""
    start_response("200 OK", [])
    return [json.dumps({"path": environ["PATH_INFO"], "options": {}}).encode()]


def test_percent_encoded_server_address_is_not_encoded_again():
    with serve_application(respond_with_path_info) as url:
        response = build_scheduler_client(f"{url}/a%20b").get("hosts", "x")
    assert response["path"] == "/a b/scheduler/v1/hosts/x"


def test_connection_closed_by_the_scheduler_server_is_reported_without_a_retry():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def close_connection_after_request():
            connection, _ = server.accept()
            received = b""
            with connection:
                while not received.endswith(b"{}"):
                    received += connection.recv(65536)

        threading.Thread(target=close_connection_after_request).start()
        base = f"http://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(Unavailable) as error:
            build_scheduler_client(base, timeout=60).post("select_destinations", body={})
        reason = "Remote end closed connection without response"
        assert error.value.detail == f"{base} does not answer: {reason}"
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "OS_CACERT"])
def test_tls_certificate_is_verified_with_the_ca_file_of_the_environment(
    monkeypatch, tmp_path, capsys, variable
):
    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    for name, signer in (("other.pem", trustme.CA()), ("ours.pem", authority)):
        signer.cert_pem.write_to_path(str(tmp_path / name))
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    with serve_application(respond_with_path_info, tls) as url:
        command = ["policy", "show", "x", "--format", "json", "--url", url]
        monkeypatch.setenv(variable, str(tmp_path / "other.pem"))
        assert main(command) == 1
        assert "certificate verify failed" in capsys.readouterr().err
        assert main([*command, "--os-cacert", str(tmp_path / "ours.pem")]) == 0
        monkeypatch.setenv(variable, str(tmp_path / "ours.pem"))
        assert main(command) == 0


@pytest.mark.parametrize("name", [".", ".."])
def test_dot_segment_as_host_name_is_rejected_by_the_scheduler_client(name):
    with pytest.raises(Invalid, match="is not allowed in a URL"):
        build_scheduler_client("http://127.0.0.1:1").get("hosts", name)


SIZE_OPTIONS = ("--vcpus", "1", "--ram", "1", "--disk", "0")
NON_UTF8_COMMANDS = [
    (["select", *SIZE_OPTIONS, "--zone", NON_UTF8_ARGUMENT], "--zone: "),
    (["explain", *SIZE_OPTIONS, "--host", NON_UTF8_ARGUMENT], "--host: "),
    (["explain", *SIZE_OPTIONS, "--policy", NON_UTF8_ARGUMENT], "--policy: "),
    (["select", *SIZE_OPTIONS, "--property", f"a={NON_UTF8_ARGUMENT}"], "--property a: "),
    (["select", *SIZE_OPTIONS, "--property", f"{NON_UTF8_ARGUMENT}=a"], "--property: "),
    (["decision", "list", "--host", NON_UTF8_ARGUMENT], ""),
]


@pytest.mark.parametrize(
    "url_options", [[], ["--url", "http://127.0.0.1:1"]], ids=["direct", "url"]
)
@pytest.mark.parametrize(("arguments", "option"), NON_UTF8_COMMANDS)
def test_non_utf8_argument_is_rejected_with_its_option(run_cli, arguments, option, url_options):
    error = run_cli(*arguments, *url_options)[2]
    assert error.startswith(f"placement-sched: {option}")
    assert "\n" not in error[:-1]
    assert error.endswith("'\\udcff' is not valid UTF-8\n")
    assert "JSON" not in error


@pytest.mark.parametrize("command", ["policy", "hosts"])
def test_non_utf8_policy_or_host_name_is_rejected_without_a_request(capsys, command):
    main([command, "show", NON_UTF8_ARGUMENT, "--url", "http://127.0.0.1:1"])
    assert capsys.readouterr().err == "placement-sched: '\\udcff' is not valid UTF-8\n"


def test_local_administrator_is_restricted_by_neither_keystone_nor_a_policy_file(
    sqlite_app, run_cli, tmp_path
):
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1")])
    policy = tmp_path / "policy.yaml"
    policy.write_text('"scheduler:hosts:list": "!"\n"scheduler:explain": "!"\n')
    conf = tmp_path / "nova.conf"
    conf.write_text(
        f"[api]\nauth_strategy = keystone\n[oslo_policy]\npolicy_file = {policy}\n"
        "[scheduler]\n[keystone_authtoken]\nauth_type = password\n"
    )
    options = ("--config-file", str(conf), "--format", "json")
    status, printed, error = run_cli("host", "list", *options)
    assert (status, error, len(json.loads(printed)["hosts"])) == (0, "", 1)
    status, printed, error = run_cli("explain", *SIZE_OPTIONS, *options)
    assert (status, error, json.loads(printed)["outcome"]) == (0, "", "selected")


def test_local_defect_is_reported_in_one_line(run_cli, sqlite_app, monkeypatch):
    def fail(*_arguments):
        raise ValueError("broken")

    monkeypatch.setattr(hosts, "list_hosts", fail)
    status, printed, error = run_cli("host", "list")
    assert (status, printed) == (1, "")
    assert error == (
        "placement-sched: unexpected RuntimeError: ValueError: broken "
        "(a defect: --debug shows the traceback)\n"
    )


def test_selection_of_a_local_command_has_no_request_id(sqlite_app, run_cli):
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1")])
    assert run_cli("select", *SIZE_OPTIONS)[0] == 0
    (decision,) = sqlite_app.get("/scheduler/v1/decisions").json["decisions"]
    assert decision["request_id"] is None


def test_local_command_on_a_missing_database_names_the_file(run_main, monkeypatch, tmp_path):
    file = tmp_path / "missing.db"
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", f"sqlite:///{file}")
    status, printed, error = run_main("host", "list")
    assert (status, printed) == (1, "")
    assert error.startswith(f"placement-sched: the database {file} does not exist: query a server")


def test_local_completion_lists_private_flavors(sqlite_app):
    flavor = {"name": "private", "ram": 1, "vcpus": 1, "disk": 0, "id": "9"}
    body = {"flavor": {**flavor, "os-flavor-access:is_public": False}}
    sqlite_app.post_json("/compute/v2.1/flavors", body)
    assert SchedulerClient(make_adapter(sqlite_app.app)).list_flavor_names() == ["private"]
