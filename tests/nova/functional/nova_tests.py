# SPDX-License-Identifier: Apache-2.0
"""Nova's functional tests in a process that reads requests from stdin.

``python nova_tests.py ours`` uses a running placement service, and ``theirs`` openstack-placement
in this process. The interpreter is of the peer environment. A request and its response are a line
of JSON each. The first line of the output is ``ready``.

``{"list": [NAME, ...]}`` returns the ids of the tests of modules and packages. ``{"run": ID}`` runs
a test and returns its outcome, its errors, its duration and its requests to placement. With
``ours``, the line ``{"options": {GROUP: {NAME: VALUE}}}`` may come before the response. It requests
a server with these options, and the next line of stdin is ``{"url": URL}``.
"""

import gc
import importlib
import json
import os
import pkgutil
import re
import sys
import time
import unittest
import warnings

# The import comes first, since it patches the standard library.
import nova.tests.functional  # noqa: F401  # isort: skip

import fixtures
from keystoneauth1 import adapter
from nova.tests import fixtures as nova_fixtures
from oslo_config import cfg
from oslo_policy import opts as policy_options
from placement.tests.functional.fixtures import placement as placement_fixtures
from sqlalchemy.exc import SADeprecationWarning
from testtools import TestResult

#: Seconds until nova's base class ends a test.
os.environ.setdefault("OS_TEST_TIMEOUT", "240")
#: Ids in a path, which differ between tests.
UUID_PATTERN = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
#: Parts of a path that name an object, by the part before them.
NAMED_OBJECT_PATTERN = re.compile(r"/(traits|resource_classes|inventories)/[^/?]+")


class JsonLineConnection:
    """The lines of requests and responses, apart from the output of tests."""

    def __init__(self):
        self._responses = os.fdopen(os.dup(1), "w")
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)

    def send(self, result):
        self._responses.write(result if isinstance(result, str) else json.dumps(result))
        self._responses.write("\n")
        self._responses.flush()

    def exchange_json_line(self, question):
        self.send(question)
        return json.loads(sys.stdin.readline())


class FixtureOptions:
    """The options of a server, set as by the ``conf_fixture`` of placement's own fixture."""

    def __init__(self):
        self.values = {}

    def config(self, group=None, **values):
        self.values.setdefault(group or "DEFAULT", {}).update(values)


class ServedPlacement(fixtures.Fixture):
    """A running server in place of the base class of nova's fixture.

    Its database was emptied before the test. The fixture resolves ``endpoint`` in each request, so
    that a test can set options after the start of the fixture.
    """

    lines = None
    #: The URLs of servers, by their options.
    urls_by_options = {}  # noqa: RUF012
    #: Number of this test's fixtures that began with an empty database.
    emptied_databases = 0

    def __init__(
        self, token="admin", conf_fixture=None, db=True, use_intercept=True, register_opts=True
    ):
        self.token = token
        self.db = db
        self.conf_fixture = FixtureOptions()

    def setUp(self):
        super().setUp()
        # placement's fixture sets this default in nova's process, too, and some tests of nova pass
        # only with the old default.
        policy_options.set_defaults(cfg.ConfigOpts(), enforce_new_defaults=False)
        ServedPlacement.emptied_databases += self.db
        if self.emptied_databases > 1:
            raise RuntimeError("a test uses two databases of placement")

    @property
    def endpoint(self):
        options_key = json.dumps(self.conf_fixture.values, sort_keys=True)
        if options_key not in self.urls_by_options:
            result = self.lines.exchange_json_line({"options": self.conf_fixture.values})
            self.urls_by_options[options_key] = result["url"]
        return self.urls_by_options[options_key]


def adapt_nova_tests_to_installed_nova():
    """Adapt the tests to an installed package and the newest SQLAlchemy.

    They read ``api-paste.ini`` from the source tree, and treat deprecation warnings of SQLAlchemy,
    which has more of them now, as errors.
    """
    configure, warn = nova_fixtures.ConfFixture.setUp, nova_fixtures.WarningsFixture.setUp

    def set_up_configuration(fixture):
        configure(fixture)
        pipelines = f"{sys.prefix}/etc/nova/api-paste.ini"
        fixture.conf.set_default("api_paste_config", pipelines, group="wsgi")

    def set_up_warnings(fixture):
        warn(fixture)
        warnings.simplefilter("ignore", SADeprecationWarning)

    nova_fixtures.ConfFixture.setUp = set_up_configuration
    nova_fixtures.WarningsFixture.setUp = set_up_warnings


class PlacementRequestRecorder:
    """The requests that tests send to placement, by method and path without ids."""

    def __init__(self):
        self.seen = set()
        self._request = adapter.Adapter.request
        adapter.Adapter.request = self._record_requests()

    def _record_requests(self):
        def record_request(client, url, method, **more):
            if (more.get("endpoint_override") or "").endswith("/placement"):
                path = NAMED_OBJECT_PATTERN.sub(
                    r"/\1/{name}", UUID_PATTERN.sub("{uuid}", url.partition("?")[0])
                )
                self.seen.add(f"{method} {path}")
            return self._request(client, url, method, **more)

        return record_request


def main():
    lines = JsonLineConnection()
    if sys.argv[1] == "ours":
        ServedPlacement.lines = lines
        placement_fixtures.PlacementFixture = ServedPlacement
    adapt_nova_tests_to_installed_nova()
    requests = PlacementRequestRecorder()
    # Collecting garbage as often as by default takes a sixth of the time of nova's tests.
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    lines.send("ready")
    for line in sys.stdin:
        lines.send(handle_request_line(json.loads(line), requests))


def handle_request_line(question, requests):
    if "list" in question:
        return {"tests": list(list_tests(question["list"]))}
    requests.seen.clear()
    ServedPlacement.emptied_databases = 0
    return {**run_test(question["run"]), "requests": sorted(requests.seen)}


def list_tests(names):
    for name in names:
        module = importlib.import_module(name)
        inner = pkgutil.walk_packages(getattr(module, "__path__", ()), f"{name}.")
        for module_name in [name, *(submodule.name for submodule in inner)]:
            for test in flatten_suite(unittest.defaultTestLoader.loadTestsFromName(module_name)):
                yield test.id()


def flatten_suite(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flatten_suite(test)
        else:
            yield test


def run_test(name):
    result, since = TestResult(), time.monotonic()
    try:
        module, class_name, method = name.rsplit(".", 2)
        getattr(importlib.import_module(module), class_name)(method).run(result)
    except (Exception, SystemExit) as failure:  # noqa: BLE001 (whatever ends a test)
        result.errors.append((name, repr(failure)))
    text = "\n".join(text for _, text in result.errors + result.failures)
    failed = not result.wasSuccessful()
    outcome = "failed" if failed else "skipped" if result.skip_reasons else "passed"
    if outcome == "skipped":
        text = "; ".join(result.skip_reasons)
    return {"outcome": outcome, "text": text, "seconds": time.monotonic() - since}


if __name__ == "__main__":
    try:
        main()
    finally:
        # Threads that a test left behind would keep the process.
        os._exit(0)
