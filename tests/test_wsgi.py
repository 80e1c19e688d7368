# SPDX-License-Identifier: Apache-2.0
"""The WSGI entry points under third-party servers: requests, and errors at the start."""

import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from placement_sched.app import APIS
from tests.support import identity
from tests.support.commands import run_captured
from tests.support.identity import build_keystone_config
from tests.support.repository import PACKAGE
from tests.support.servers import (
    PROGRAMS_FOLDER,
    Server,
    build_environment,
    rewrite_file,
    start_server,
    wait_until,
)

pytestmark = pytest.mark.system

#: Maximum seconds of a server. Several servers start on a machine that may be busy.
MAX_WAIT_SECONDS = 240

LISTEN_ADDRESS = "127.0.0.1:{port}"
#: The command line of each server.
SERVER_COMMANDS = {
    "gunicorn": ("gunicorn", "--workers", "2", "--bind", LISTEN_ADDRESS, "{application}"),
    "gunicorn --preload": ("gunicorn", "--preload", "--bind", LISTEN_ADDRESS, "{application}"),
    "uwsgi": ("uwsgi", "--master", "--http-socket", LISTEN_ADDRESS, "--module", "{application}"),
    "uwsgi --lazy-apps": (
        *("uwsgi", "--master", "--lazy-apps", "--need-app"),
        *("--http-socket", LISTEN_ADDRESS, "--module", "{application}"),
    ),
}
parametrize_servers = pytest.mark.parametrize("server", SERVER_COMMANDS)
parametrize_applications = pytest.mark.parametrize("application", ["application", "placement"])


#: The section that every configuration needs.
DATABASE_SECTION = "[placement_database]\nconnection = sqlite:///placement_sched.db\n"


def wait_for_end_and_read_own_log_lines(server: Server) -> list[str]:
    """Return the log lines of our application when a server has ended."""
    server.process.wait(timeout=MAX_WAIT_SECONDS)
    return [line for line in server.log.read_text().splitlines() if "placement_sched" in line]


def has_traceback_in_log(running: Server, server: str) -> bool:
    """Return whether the log shows a traceback.

    Only tracebacks of this package count for gunicorn with several workers. Its master may print a
    traceback (HaltServer) if the second worker fails while the master stops because of the first.
    """
    log = running.log.read_text()
    if server == "gunicorn":
        return f'File "{PACKAGE}' in log
    return "Traceback" in log


@pytest.fixture
def start_wsgi(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Give a function that starts a server in an empty folder with these variables."""
    with ExitStack() as stack:

        def start_wsgi(server: str, application: str = "application", **variables: str) -> Server:
            program, *arguments = SERVER_COMMANDS[server]
            name = f"placement_sched.wsgi:{application}"
            command = [
                PROGRAMS_FOLDER / program,
                *(word.replace("{application}", name) for word in arguments),
            ]
            return stack.enter_context(
                start_server(
                    command=command,
                    folder=tmp_path,
                    ready=None,
                    variables=build_environment(**variables),
                    how=signal.SIGINT,  # uwsgi reloads at SIGTERM
                )
            )

        yield start_wsgi


def run_flask(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command ``run_flask`` with our application, without a configuration."""
    return run_captured(
        [PROGRAMS_FOLDER / "flask", "--app", "placement_sched.wsgi", *arguments],
        cwd=folder,
        env=build_environment(COLUMNS="300"),
        timeout=MAX_WAIT_SECONDS,
    )


@pytest.mark.parametrize("command", [("run", "--port", "0"), ("shell",)], ids=" ".join)
def test_flask_refuses_to_serve_without_a_configured_auth_strategy(tmp_path, command):
    process = run_flask(tmp_path, *command)
    assert process.returncode != 0
    assert process.stderr.startswith("placement_sched.wsgi: cannot serve: ")


def test_flask_lists_every_route(tmp_path):
    process = run_flask(tmp_path, "routes", "--all-methods")
    assert (process.returncode, process.stderr) == (0, "")
    assert not (tmp_path / "placement_sched.db").exists()
    rows = [line.split() for line in process.stdout.splitlines()[2:]]
    listed = {(method.strip(","), rule) for _, *methods, rule in rows for method in methods}
    declared = {(route.method, f"/{api.name}{route.path}") for api in APIS for route in api.routes}
    assert declared <= listed
    assert ("GET", "/healthz/ready") in listed
    assert "placement.traits.show" in process.stdout


@parametrize_servers
@parametrize_applications
def test_wsgi_server_ends_without_a_configured_auth_strategy(
    start_wsgi, tmp_path, server, application
):
    running = start_wsgi(server, application)
    lines = set(wait_for_end_and_read_own_log_lines(running))
    assert running.process.returncode != 0 or server == "uwsgi --lazy-apps"
    (line,) = lines  # each worker logs the same line
    assert line == (
        "placement_sched.wsgi: cannot serve: the configuration (PLACEMENT_SCHED_CONFIG is "
        "not set) sets neither [api] auth_strategy nor an option of [keystone_authtoken]. Set "
        "[api] auth_strategy = keystone and [keystone_authtoken], or [api] auth_strategy = "
        "noauth2, which admits every client, in a file that PLACEMENT_SCHED_CONFIG names"
    )
    assert not has_traceback_in_log(running, server)
    assert not (tmp_path / "placement_sched.db").exists()


def test_server_ends_if_its_configuration_file_sets_no_auth_strategy(start_wsgi, tmp_path):
    (tmp_path / "a.conf").write_text("[keystone_authtoken]\n[api]\nmax_request_body_size = 5000\n")
    (line,) = set(
        wait_for_end_and_read_own_log_lines(start_wsgi("gunicorn", PLACEMENT_SCHED_CONFIG="a.conf"))
    )
    assert "the configuration (read from a.conf) sets neither" in line


@pytest.mark.exhaustive
@parametrize_servers
@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("absent.conf", None, ".*absent.conf: No such file or directory"),
        (
            "a.conf",
            "[api]\nauth_strategy = bogus\n",
            r"a\.conf:2: \[api\] auth_strategy has a wrong value: .*, but found 'bogus'",
        ),
    ],
)
def test_invalid_configuration_ends_the_server(start_wsgi, tmp_path, server, name, text, message):
    if text is not None:
        (tmp_path / name).write_text(text)
    running = start_wsgi(server, PLACEMENT_SCHED_CONFIG=name)
    (line,) = set(wait_for_end_and_read_own_log_lines(running))
    assert re.fullmatch(rf"placement_sched\.wsgi: {message}", line)
    assert not has_traceback_in_log(running, server)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[api]\nauth_strategy = noauth2\n[filter_scheduler]\nenabled_filters = Nope\n", "'Nope'"),
        ("[keystone_authtoken]\nusername = ann\n", "[keystone_authtoken] auth_type is not set"),
        (
            "[api]\nauth_strategy = noauth2\n[placement_database]\nconnection = what\n",
            "[placement_database] connection",
        ),
        ("[api\n", "a.conf"),
        (
            "[api]\nauth_strategy = noauth2\n[oslo_policy]\npolicy_file = a.conf\n",
            "a.conf: expected '<document start>'",
        ),
        (
            "[DEFAULT]\nlog_config_append = absent.ini\n[api]\nauth_strategy = noauth2\n",
            "the log cannot be set up: Error loading logging config absent.ini",
        ),
    ],
    ids=["filter", "keystone", "database", "no INI", "policy", "log"],
)
def test_configuration_with_an_unusable_value_ends_the_preloading_server(
    start_wsgi, tmp_path, text, message
):
    (tmp_path / "a.conf").write_text(text if "connection" in text else text + DATABASE_SECTION)
    # gunicorn sometimes ends with another status if two workers fail at the same time.
    running = start_wsgi("gunicorn --preload", PLACEMENT_SCHED_CONFIG="a.conf")
    (line,) = wait_for_end_and_read_own_log_lines(running)
    assert line.startswith("placement_sched.wsgi: ")
    assert message in line
    assert running.process.returncode == 3
    assert "Traceback" not in running.log.read_text()


@parametrize_servers
def test_server_with_noauth2_in_its_configuration_file_responds(start_wsgi, tmp_path, server):
    connection = "[placement_database]\nconnection = sqlite:///a.db\n"
    (tmp_path / "a.conf").write_text(f"{connection}[api]\nauth_strategy = noauth2\n")
    running = start_wsgi(server, PLACEMENT_SCHED_CONFIG="a.conf")
    assert running.wait_for_first_status("/placement/resource_providers") == 401
    assert (
        running.wait_for_first_status("/placement/resource_providers", **{"X-Auth-Token": "admin"})
        == 200
    )


def test_server_with_noauth2_in_its_environment_responds(start_wsgi):
    running = start_wsgi("gunicorn", "placement", OS_API__AUTH_STRATEGY="noauth2")
    assert running.wait_for_first_status("/resource_providers", **{"X-Auth-Token": "admin"}) == 200


@pytest.mark.exhaustive
@parametrize_applications
def test_keystone_authtoken_section_without_auth_strategy_enables_keystone(
    start_wsgi, tmp_path, application
):
    """A placement.conf may omit auth_strategy, whose default in OpenStack is keystone."""
    prefix = "/placement" if application == "application" else ""
    with identity.run_keystone() as keystone:
        text = build_keystone_config(keystone.url).replace("auth_strategy = keystone\n", "")
        (tmp_path / "placement.conf").write_text(f"{text}\n{DATABASE_SECTION}")
        running = start_wsgi("gunicorn", application, PLACEMENT_SCHED_CONFIG="placement.conf")
        token = keystone.issue_token("ann", "shop", "admin")
        path = f"{prefix}/resource_providers"
        assert running.wait_for_first_status(path, **{"X-Auth-Token": "admin"}) == 401
        assert running.wait_for_first_status(path, **{"X-Auth-Token": token}) == 200

    def is_access_of_ann_logged() -> bool:
        lines = [line for line in running.read_log_lines() if "GET /" in line]
        return any(" - ann [" in line for line in lines)

    assert wait_until(is_access_of_ann_logged)  # the line is logged after the response


@pytest.mark.exhaustive
def test_configuration_file_that_becomes_invalid_after_the_start_does_not_stop_requests(
    start_wsgi, tmp_path
):
    file = tmp_path / "a.conf"
    file.write_text(f"[api]\nauth_strategy = noauth2\n{DATABASE_SECTION}")
    running = start_wsgi("gunicorn --preload", PLACEMENT_SCHED_CONFIG="a.conf")
    assert wait_until(lambda: "Booting worker" in running.log.read_text())
    rewrite_file(file, f"{file.read_text()}[scheduler]\nmax_attempts = many\n")
    assert (
        running.wait_for_first_status("/placement/resource_providers", **{"X-Auth-Token": "admin"})
        == 200
    )
