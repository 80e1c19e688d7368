"""The WSGI entry points under servers that are not ours: started, or ended with one line."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

from placement_sched.app import FACES
from tests import identity
from tests.api.test_auth_keystone import config
from tests.house.tree import PACKAGE
from tests.loopback import reserved_port
from tests.servers import rewrite, wait_until

#: Seconds that a server may take: several are started, on a machine that may be busy.
PATIENCE = 240

#: The servers, by how each is told the address and the application.
SERVERS = {
    "gunicorn": ("gunicorn", "--workers", "2", "--bind", "{address}", "{application}"),
    "gunicorn --preload": ("gunicorn", "--preload", "--bind", "{address}", "{application}"),
    "uwsgi": ("uwsgi", "--master", "--http-socket", "{address}", "--module", "{application}"),
    "uwsgi --lazy-apps": (
        *("uwsgi", "--master", "--lazy-apps", "--need-app"),
        *("--http-socket", "{address}", "--module", "{application}"),
    ),
}
every_server = pytest.mark.parametrize("server", SERVERS)
every_application = pytest.mark.parametrize("application", ["application", "placement"])


class Started:
    """A server that was started, with all that it wrote."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, url: str) -> None:
        self.process = process
        self.log = log
        self.url = url

    def ask(self, path: str, **headers: str) -> int:
        """Return the status of an answer, once the server answers."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                with urlopen(Request(self.url + path, headers=headers), timeout=PATIENCE) as answer:
                    return answer.status
            except HTTPError as refusal:
                with refusal:
                    return refusal.code
            except (URLError, OSError):
                assert time.monotonic() < end, self.log.read_text()
                assert self.process.poll() is None, self.log.read_text()
                time.sleep(0.1)

    def lines(self) -> list[str]:
        """Return what our application wrote of its end."""
        self.process.wait(timeout=PATIENCE)
        return [line for line in self.log.read_text().splitlines() if "placement_sched" in line]


def shows_a_traceback(started: Started, server: str) -> bool:
    """Return whether a traceback was printed, of gunicorn with several workers one of ours.

    Its master may print one of its own (HaltServer), where the second of two workers fails while
    the master stops for the first.
    """
    log = started.log.read_text()
    if server == "gunicorn":
        return f'File "{PACKAGE}' in log
    return "Traceback" in log


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Started]]:
    """Give a function that starts a server in an empty folder, with these variables."""
    with ExitStack() as stack:

        def start(server: str, application: str = "application", **variables: str) -> Started:
            port = stack.enter_context(reserved_port()).getsockname()[1]
            address = f"127.0.0.1:{port}"
            program, *arguments = (
                part.format(address=address, application=f"placement_sched.wsgi:{application}")
                for part in SERVERS[server]
            )
            log = tmp_path / "server.log"
            kept = {key: value for key, value in os.environ.items() if not key.startswith("OS_")}
            process = stack.enter_context(
                subprocess.Popen(
                    [Path(sys.executable).with_name(program), *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=stack.enter_context(log.open("w")),
                    stderr=subprocess.STDOUT,
                    cwd=tmp_path,
                    env={**kept, **variables},
                )
            )
            # uwsgi reloads at SIGTERM.
            stack.callback(lambda: process.poll() is None and process.send_signal(signal.SIGINT))
            return Started(process, log, f"http://{address}")

        yield start


def flask(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Return what the command ``flask`` printed of our application, without a configuration."""
    variables = {key: value for key, value in os.environ.items() if not key.startswith("OS_")}
    return subprocess.run(
        [Path(sys.executable).with_name("flask"), "--app", "placement_sched.wsgi", *arguments],
        cwd=folder,
        env={**variables, "COLUMNS": "300"},
        timeout=PATIENCE,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("command", [("run", "--port", "0"), ("shell",)], ids=" ".join)
def test_flask_serves_no_noauth2_that_is_not_written(tmp_path, command):
    done = flask(tmp_path, *command)
    assert done.returncode != 0
    assert done.stderr.startswith("placement_sched.wsgi: refusing to serve: ")


def test_flask_lists_every_route(tmp_path):
    done = flask(tmp_path, "routes", "--all-methods")
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "placement_sched.db").exists()
    rows = [line.split() for line in done.stdout.splitlines()[2:]]
    listed = {(method.strip(","), rule) for _, *methods, rule in rows for method in methods}
    declared = {
        (route.method, f"/{face.name}{route.path}") for face in FACES for route in face.routes
    }
    assert declared <= listed
    assert ("GET", "/healthz/ready") in listed
    assert "placement.traits.show" in done.stdout


@every_server
@every_application
def test_noauth2_that_is_not_written_ends_the_server(start, tmp_path, server, application):
    started = start(server, application)
    told = set(started.lines())
    assert started.process.returncode != 0 or server == "uwsgi --lazy-apps"
    (line,) = told  # of each worker the same
    assert line == (
        "placement_sched.wsgi: refusing to serve: the configuration (PLACEMENT_SCHED_CONFIG is "
        "not set) says neither [api] auth_strategy nor anything in [keystone_authtoken]; write "
        "[api] auth_strategy = keystone and [keystone_authtoken], or [api] auth_strategy = "
        "noauth2, which lets anyone in, in a file that PLACEMENT_SCHED_CONFIG names"
    )
    assert not shows_a_traceback(started, server)
    assert not (tmp_path / "placement_sched.db").exists()


def test_file_without_a_word_of_it_does_not_let_noauth2_in(start, tmp_path):
    (tmp_path / "a.conf").write_text("[keystone_authtoken]\n[api]\nmax_request_body_size = 5000\n")
    (line,) = set(start("gunicorn", PLACEMENT_SCHED_CONFIG="a.conf").lines())
    assert "the configuration (PLACEMENT_SCHED_CONFIG=a.conf) says neither" in line


@every_server
@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("absent.conf", None, "configuration file not found: .*absent.conf"),
        (
            "a.conf",
            "[api]\nauth_strategy = bogus\n",
            r"a\.conf:2: \[api\] auth_strategy has a wrong value: .*, but found 'bogus'",
        ),
    ],
)
def test_wrong_configuration_ends_the_server(start, tmp_path, server, name, text, told):
    if text is not None:
        (tmp_path / name).write_text(text)
    started = start(server, PLACEMENT_SCHED_CONFIG=name)
    (line,) = set(started.lines())
    assert re.fullmatch(rf"placement_sched\.wsgi: {told}", line)
    assert not shows_a_traceback(started, server)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[api]\nauth_strategy = noauth2\n[filter_scheduler]\nenabled_filters = Nope\n", "'Nope'"),
        ("[keystone_authtoken]\nusername = ann\n", "[keystone_authtoken] auth_type is not set"),
        ("[api]\nauth_strategy = noauth2\n[pci]\nalias = {\n", "[pci] alias"),
        (
            "[api]\nauth_strategy = noauth2\n[placement_database]\nconnection = what\n",
            "[placement_database] connection",
        ),
        ("[api\n", "a.conf"),
        (
            "[api]\nauth_strategy = noauth2\n[oslo_policy]\npolicy_file = a.conf\n",
            "[oslo_policy] policy_file a.conf",
        ),
        (
            "[DEFAULT]\nlog_config_append = absent.ini\n[api]\nauth_strategy = noauth2\n",
            "the log cannot be set up: Error loading logging config absent.ini",
        ),
    ],
    ids=["filter", "keystone", "alias", "database", "no INI", "policy", "log"],
)
def test_what_could_not_serve_ends_the_server(start, tmp_path, text, told):
    (tmp_path / "a.conf").write_text(text)
    # Of two workers that fail at once gunicorn, now and then, ends with another status.
    started = start("gunicorn --preload", PLACEMENT_SCHED_CONFIG="a.conf")
    (line,) = started.lines()
    assert line.startswith("placement_sched.wsgi: ")
    assert told in line
    assert started.process.returncode == 3
    assert "Traceback" not in started.log.read_text()


@every_server
def test_noauth2_in_a_file_is_served(start, tmp_path, server):
    (tmp_path / "a.conf").write_text("[api]\nauth_strategy = noauth2\nauth_stratgy = x\n")
    started = start(server, PLACEMENT_SCHED_CONFIG="a.conf")
    assert started.ask("/placement/resource_providers") == 401
    assert started.ask("/placement/resource_providers", **{"X-Auth-Token": "admin"}) == 200
    assert "there is no option [api] auth_stratgy; did you mean auth_strategy?" in (
        started.log.read_text()
    )


def test_noauth2_in_the_environment_is_served(start):
    started = start("gunicorn", "placement", OS_API__AUTH_STRATEGY="noauth2")
    assert started.ask("/resource_providers", **{"X-Auth-Token": "admin"}) == 200


@every_application
def test_keystone_section_alone_means_keystone(start, tmp_path, application):
    """As a placement.conf has it that leaves OpenStack's default out."""
    prefix = "/placement" if application == "application" else ""
    with identity.running() as keystone:
        text = config(keystone.url).replace("auth_strategy = keystone\n", "")
        (tmp_path / "placement.conf").write_text(text)
        started = start("gunicorn", application, PLACEMENT_SCHED_CONFIG="placement.conf")
        token = keystone.issue("ann", "shop", "admin")
        assert started.ask(f"{prefix}/resource_providers", **{"X-Auth-Token": "admin"}) == 401
        assert started.ask(f"{prefix}/resource_providers", **{"X-Auth-Token": token}) == 200

    def told() -> bool:
        lines = [line for line in started.log.read_text().splitlines() if "GET /" in line]
        return any(" - ann [" in line for line in lines)

    assert wait_until(told)  # the line follows the answer


def test_file_that_is_broken_after_the_check_does_not_stop_the_first_request(start, tmp_path):
    file = tmp_path / "a.conf"
    file.write_text("[api]\nauth_strategy = noauth2\n")
    started = start("gunicorn --preload", PLACEMENT_SCHED_CONFIG="a.conf")
    assert wait_until(lambda: "Booting worker" in started.log.read_text())
    rewrite(file, "[api]\nauth_strategy = noauth2\n[scheduler]\nmax_attempts = many\n")
    assert started.ask("/placement/resource_providers", **{"X-Auth-Token": "admin"}) == 200
    assert "keeping the previous settings" in started.log.read_text()
