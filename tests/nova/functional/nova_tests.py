# SPDX-License-Identifier: Apache-2.0
"""Runs nova's own functional tests, one by one, with a placement service of the caller's choice.

Run by the interpreter of the peer's virtual environment: ``python nova_tests.py ours``, or
``theirs`` for openstack-placement itself, in process, as nova has it. It reads requests as lines of
JSON and answers each with one line; the first line that goes out is ``ready``.

``{"list": [NAME, ...]}`` is answered with the ids of the tests of these modules and packages.
``{"run": ID}`` runs a test and is answered with its outcome, what it printed where it failed, how
long it took and the requests that it sent to placement. With ``ours``, a line may come before that
answer: ``{"options": {GROUP: {NAME: VALUE}}}`` asks for a server with these options, and expects
``{"url": URL}``.
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

# First of all: it replaces parts of the standard library, before others import them.
import nova.tests.functional  # noqa: F401  # isort: skip

import fixtures
from keystoneauth1 import adapter
from nova.tests import fixtures as nova_fixtures
from oslo_config import cfg
from oslo_policy import opts as policy_options
from placement.tests.functional.fixtures import placement as placement_fixtures
from sqlalchemy.exc import SADeprecationWarning
from testtools import TestResult

#: Seconds after which nova's base class ends a test.
os.environ.setdefault("OS_TEST_TIMEOUT", "240")
#: What a path has in place of ids: the requests of two tests are then the same.
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
#: Parts of a path that name one of many things, by the part before them.
NAMED = re.compile(r"/(traits|resource_classes|inventories)/[^/?]+")


class Lines:
    """The questions and answers; what tests print or log is not among them."""

    def __init__(self):
        self._answers = os.fdopen(os.dup(1), "w")
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)

    def send(self, answer):
        self._answers.write(answer if isinstance(answer, str) else json.dumps(answer))
        self._answers.write("\n")
        self._answers.flush()

    def ask(self, question):
        self.send(question)
        return json.loads(sys.stdin.readline())


class Options:
    """The options of a server, set as by the ``conf_fixture`` of placement's own fixture."""

    def __init__(self):
        self.values = {}

    def config(self, group=None, **values):
        self.values.setdefault(group or "DEFAULT", {}).update(values)


class ServedPlacement(fixtures.Fixture):
    """What nova's fixture inherits in place of placement's: a server that runs already.

    Its database was emptied before the test. ``endpoint`` is asked for with each request, so that a
    test may still set options after the fixture is there.
    """

    lines = None
    #: The URLs of servers, by their options.
    urls = {}  # noqa: RUF012
    #: How many fixtures of this test began with an empty database.
    emptied = 0

    def __init__(
        self, token="admin", conf_fixture=None, db=True, use_intercept=True, register_opts=True
    ):
        self.token = token
        self.db = db
        self.conf_fixture = Options()

    def setUp(self):
        super().setUp()
        # placement's fixture sets this default for itself, and so for nova in the same process:
        # some tests of nova pass only with the old default.
        policy_options.set_defaults(cfg.ConfigOpts(), enforce_new_defaults=False)
        ServedPlacement.emptied += self.db
        if self.emptied > 1:
            raise RuntimeError("a test uses two databases of placement")

    @property
    def endpoint(self):
        wanted = json.dumps(self.conf_fixture.values, sort_keys=True)
        if wanted not in self.urls:
            answer = self.lines.ask({"options": self.conf_fixture.values})
            self.urls[wanted] = answer["url"]
        return self.urls[wanted]


def configure_installed_package():
    """Let the tests run from an installed package, with the newest SQLAlchemy.

    They look for ``api-paste.ini`` where it is in the source code, and take SQLAlchemy's own
    deprecation warnings, of which it has more since, for errors.
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


class Requests:
    """The requests that tests send to placement, by method and path without ids."""

    def __init__(self):
        self.seen = set()
        self._request = adapter.Adapter.request
        adapter.Adapter.request = self._noting()

    def _noting(self):
        def request(asked, url, method, **more):
            if (more.get("endpoint_override") or "").endswith("/placement"):
                path = NAMED.sub(r"/\1/{name}", UUID.sub("{uuid}", url.partition("?")[0]))
                self.seen.add(f"{method} {path}")
            return self._request(asked, url, method, **more)

        return request


def main():
    lines = Lines()
    if sys.argv[1] == "ours":
        ServedPlacement.lines = lines
        placement_fixtures.PlacementFixture = ServedPlacement
    configure_installed_package()
    requests = Requests()
    # Collecting garbage as often as by default takes a sixth of the time of nova's tests.
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    lines.send("ready")
    for line in sys.stdin:
        lines.send(answer_question(json.loads(line), requests))


def answer_question(question, requests):
    if "list" in question:
        return {"tests": list(list_tests(question["list"]))}
    requests.seen.clear()
    ServedPlacement.emptied = 0
    return {**run_test(question["run"]), "requests": sorted(requests.seen)}


def list_tests(names):
    for name in names:
        module = importlib.import_module(name)
        inner = pkgutil.walk_packages(getattr(module, "__path__", ()), f"{name}.")
        for one in [name, *(found.name for found in inner)]:
            for test in flatten_suite(unittest.defaultTestLoader.loadTestsFromName(one)):
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
        module, one, method = name.rsplit(".", 2)
        getattr(importlib.import_module(module), one)(method).run(result)
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
