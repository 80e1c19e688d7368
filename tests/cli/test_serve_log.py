# SPDX-License-Identifier: Apache-2.0
"""Output of ``placement-sched serve``: the banner on stdout, and the log."""

import re
import signal
import socket
from collections.abc import Callable

import pytest

from placement_sched.cli.serve import warn_of_idle_workers
from tests.cli.servers import GLOBAL_REQUEST_ID, wait_for_access_line
from tests.support import identity
from tests.support.identity import build_keystone_config
from tests.support.servers import PROGRAM, build_environment, start_server

pytestmark = pytest.mark.system

LOG_TIME_PATTERN = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \d+"


@pytest.fixture
def serve_until_text(tmp_path) -> Callable[..., tuple[str, str]]:
    """Return a function that serves until a text appears, and returns stdout and stderr."""

    def serve_until_text(text: str, *arguments: str, stop_signal=signal.SIGTERM, **variables: str):
        out, err = tmp_path / "stdout", tmp_path / "stderr"
        with start_server(
            *arguments,
            folder=tmp_path,
            log=out,
            errors=err,
            start_line=text,
            ready=None,
            variables=build_environment(**variables),
            program=PROGRAM,
        ) as server:
            assert server.stop(stop_signal) == 0
        return out.read_text(), err.read_text()

    return serve_until_text


@pytest.mark.parametrize(
    "stop_signal", [signal.SIGTERM, signal.SIGINT], ids=lambda stop_signal: stop_signal.name
)
def test_serve_prints_its_address_on_stdout_and_the_log_on_stderr(serve_until_text, stop_signal):
    out, err = serve_until_text("placement-sched serves", stop_signal=stop_signal)
    first, *lines = out.splitlines()
    assert re.fullmatch(r"placement-sched serves \S+ on .*", first)
    assert all(line.startswith("the ") for line in lines)
    lines = err.splitlines()
    assert all(re.match(LOG_TIME_PATTERN, line) for line in lines)
    messages = [line.partition(" [-] ")[2] for line in lines if "cli.serve" in line]
    assert messages == [f"stopping: {stop_signal.name}", "stopped"]
    assert "refused to gracefully stop" not in err


def test_serve_writes_its_log_to_the_log_file(serve_until_text, tmp_path):
    _, err = serve_until_text("placement-sched serves", OS_DEFAULT__LOG_FILE="own.log")
    assert err == ""
    assert "stopped" in (tmp_path / "own.log").read_text()


def test_log_file_in_a_directory_has_the_name_of_the_service(serve_until_text, tmp_path):
    file = tmp_path / "placement-sched.log"
    printed, _ = serve_until_text("placement-sched serves", "--log-dir", str(tmp_path))
    assert f", log {file}\n" in printed
    assert file.is_file()


def test_serve_warns_of_an_ignored_option_of_placement(serve_until_text, tmp_path):
    (tmp_path / "a.conf").write_text(
        f"[placement_database]\nconnection = sqlite:///{tmp_path}/a.db\n"
        "slave_connection = mysql+pymysql://standby/placement\n"
    )
    _, err = serve_until_text("placement-sched serves", "--config-file", "a.conf")
    # gunicorn may also warn that SIGTERM stopped a worker in its first moments.
    (warning,) = [line for line in err.splitlines() if "slave_connection" in line]
    assert " WARNING " in warning
    assert "a.conf:3: [placement_database] slave_connection is ignored: all requests use" in warning


def test_serve_reports_an_invalid_value_as_config_validate_does(run_command, tmp_path):
    message = "[scheduler] max_attempts has a wrong value: 'many' is not an integer"
    (tmp_path / "a.conf").write_text("[scheduler]\nmax_attempts = many\n")
    validated = run_command("config", "validate", "--config-file", "a.conf")
    assert validated.stdout == f"a.conf:2: error: {message}\n"
    refused = run_command("serve", "--port", "0", "--config-file", "a.conf")
    assert refused.returncode == 1
    assert refused.stderr.endswith(f"placement-sched: {tmp_path}/a.conf:2: {message}\n")


def test_serve_reports_an_invalid_environment_variable_by_name(run_command):
    refused = run_command("serve", "--port", "0", OS_API__AUTH_STRATEGY="bogus")
    assert refused.stderr == (
        "placement-sched: environment OS_API__AUTH_STRATEGY: [api] auth_strategy has a wrong "
        "value: Valid values are [keystone, noauth2], but found 'bogus'\n"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("auth_type = nonsense", "[keystone_authtoken] auth_type nonsense is not installed"),
        ("username = ann", "[keystone_authtoken] auth_type is not set"),
    ],
)
def test_invalid_keystone_options_prevent_the_start(run_command, tmp_path, text, message):
    """Only the section selects keystone."""
    (tmp_path / "a.conf").write_text(f"[keystone_authtoken]\n{text}\n")
    refused = run_command("serve", "--port", "0", "--config-file", "a.conf")
    assert refused.returncode == 1
    assert refused.stdout == ""
    assert refused.stderr.count("\n") == 1
    assert refused.stderr.startswith(f"placement-sched: {message}")
    validated = run_command("config", "validate", "--config-file", "a.conf")
    assert validated.returncode == 1
    assert validated.stdout.count(message) == 1


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql://u:geheim@127.0.0.1:{port}/x", "127.0.0.1.*port {port}.*refused"),
        ("mysql://u:geheim@127.0.0.1:{port}/x", "127.0.0.1.*refused"),
        *(
            pytest.param(
                f"{driver}://u:geheim@no.such.host.invalid/x",
                "no.such.host.invalid",
                marks=pytest.mark.exhaustive,
            )
            for driver in ("postgresql", "mysql")
        ),
    ],
)
def test_serve_logs_an_unavailable_database_once_with_the_reason(serve_until_text, url, message):
    with socket.socket() as bound:  # bound, but not listening
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        _, err = serve_until_text(
            "starting without",
            "--workers",
            "2",
            OS_PLACEMENT_DATABASE__CONNECTION=url.format(port=port),
            # Look-ups of an unknown name last until the slowest name server has
            # answered.
            RES_OPTIONS="timeout:1 attempts:1",
        )
    (line,) = [line for line in err.splitlines() if "starting without" in line]
    assert re.search(
        rf" starting without the database: the database does not answer: .*"
        rf"{message.format(port=port)}",
        line,
    )
    assert line.count("does not answer") == 1
    assert "geheim" not in err
    assert "Traceback" not in err


def send_request_and_get_id(server, **headers: str) -> str:
    """Send a request and return its id."""
    _, response_headers, _ = server.get("/placement/traits", **headers)
    return {name.lower(): value for name, value in response_headers.items()}[
        "x-openstack-request-id"
    ]


def test_access_log_line_has_global_and_local_request_id(serve):
    server = serve()
    with_global = wait_for_access_line(
        server,
        request_id := send_request_and_get_id(
            server, **{"X-Openstack-Request-Id": GLOBAL_REQUEST_ID}
        ),
    )
    assert f" [{GLOBAL_REQUEST_ID} {request_id} - - - - - -] 127.0.0.1 - - [" in with_global
    alone = wait_for_access_line(server, request_id := send_request_and_get_id(server))
    assert f" [None {request_id} - - - - - -] 127.0.0.1 - - [" in alone
    forged = wait_for_access_line(
        server,
        request_id := send_request_and_get_id(server, **{"X-Openstack-Request-Id": "req-1] x"}),
    )
    assert f" [None {request_id} " in forged


def test_access_log_line_has_the_authenticated_caller(serve, tmp_path):
    with identity.run_keystone() as keystone:
        (tmp_path / "placement.conf").write_text(build_keystone_config(keystone.url))
        server = serve("--config-file", "placement.conf")
        token = keystone.issue_token("ann", "shop", "admin")
        _, response_headers, _ = server.get("/placement/traits", token=token)
        line = wait_for_access_line(server, dict(response_headers)["x-openstack-request-id"])
    assert re.search(r" \[None req-\S+ ann shop - - default default\] 127\.0\.0\.1 - ann \[", line)
    assert token not in server.log.read_text()


@pytest.mark.parametrize(("workers", "is_warned"), [(1, False), (2, False), (500, True)])
def test_more_workers_than_cores_are_warned_about(caplog, workers, is_warned):
    warn_of_idle_workers(workers)
    assert ("a worker uses a single core" in caplog.text) is is_warned
