# SPDX-License-Identifier: Apache-2.0
"""A process that runs nova's functional tests, and its placement service.

The service is ``ours``: servers on an SQLite database that is emptied before each test. Or it is
``theirs``: openstack-placement in nova's process.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Any

from tests.conftest import _create_schema, delete_test_rows
from tests.differential.comparison import PEER_PYTHON
from tests.differential.lines import JsonLineProgram
from tests.support.servers import Server, start_servers

NOVA_TESTS_PROGRAM = Path(__file__).with_name("nova_tests.py")
#: nova warns at each start that it will not use eventlet in future.
HIDE_NOVA_WARNING_OPTIONS = ("-W", "ignore:::nova.monkey_patch")
OUR_PLACEMENT, OPENSTACK_PLACEMENT = "ours", "theirs"
#: Seconds until the process of a test is ended. Nova's base class ends most tests after 240.
MAX_TEST_SECONDS = 600
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
#: Options of placement's fixture. Some tests reshape as an administrator.
PLACEMENT_FIXTURE_OPTIONS = {
    "api": {"auth_strategy": "noauth2"},
    "oslo_policy": {"enforce_new_defaults": False},
}


@dataclass(frozen=True)
class TestResult:
    """The outcome of a test and its requests to placement, such as ``GET /traits/{name}``."""

    test: str
    outcome: str
    text: str
    seconds: float
    requests: tuple[str, ...]


class ServersByOptions:
    """Servers on a shared database, a server for each set of options."""

    def __init__(self, serve: Callable[..., Server], folder: Path) -> None:
        self._serve = serve
        self._folder = folder
        self._running: dict[str, Server] = {}
        self._database = f"sqlite:///{folder}/placement.db"
        _create_schema(self._database)
        self.get_url_for_options({})

    def empty_database(self) -> None:
        delete_test_rows(self._database)

    def get_url_for_options(self, options: Mapping[str, Mapping[str, Any]]) -> str:
        key = json.dumps(options, sort_keys=True)
        if key not in self._running:
            path = self._folder / f"placement{len(self._running)}.conf"
            path.write_text(
                "\n".join(_format_config_lines({**PLACEMENT_FIXTURE_OPTIONS, **options})) + "\n"
            )
            self._running[key] = self._serve(
                "--config-file", str(path), OS_PLACEMENT_DATABASE__CONNECTION=self._database
            )
        return f"{self._running[key].url}/placement"


class Worker:
    """Runs tests in a process, and starts the process again if a test has ended it."""

    def __init__(self, service: str, servers: ServersByOptions | None) -> None:
        self._service = service
        self._servers = servers
        self._started: JsonLineProgram | None = None

    def list_tests(self, modules: Iterable[str]) -> list[str]:
        return list(self._running_process.exchange_json_line({"list": list(modules)})["tests"])

    def run_test(self, test: str) -> TestResult:
        if self._servers is not None:
            self._servers.empty_database()
        # The limit of nova's base class does not end a test whose green threads all wait.
        limit = Timer(MAX_TEST_SECONDS, self._running_process.kill)
        limit.start()
        try:
            result = self._running_process.exchange_json_line({"run": test})
            while "options" in result:
                result = self._running_process.exchange_json_line(
                    {"url": self._servers.get_url_for_options(result["options"])}
                )
        except (OSError, ValueError) as failure:
            self.close()
            return TestResult(test, FAILED, f"the test ended its process: {failure!r}", 0, ())
        finally:
            limit.cancel()
        requests = tuple(result.pop("requests"))
        return TestResult(test, **result, requests=requests)

    def close(self) -> None:
        if self._started is not None:
            with suppress(OSError):  # the process may have ended
                self._started.close()
            self._started = None

    @property
    def _running_process(self) -> JsonLineProgram:
        if self._started is None:
            self._started = JsonLineProgram(
                PEER_PYTHON, *HIDE_NOVA_WARNING_OPTIONS, NOVA_TESTS_PROGRAM, self._service
            )
        return self._started


@contextmanager
def run_worker(service: str, folder: Path) -> Iterator[Worker]:
    folder.mkdir(exist_ok=True)
    with start_servers(folder) as serve:
        servers = ServersByOptions(serve, folder) if service == OUR_PLACEMENT else None
        with closing(Worker(service, servers)) as worker:
            yield worker


def _format_config_lines(options: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for group, values in options.items():
        yield f"[{group}]"
        for name, value in values.items():
            yield f"{name} = {value}"
