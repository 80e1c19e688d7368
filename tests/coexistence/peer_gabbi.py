# SPDX-License-Identifier: Apache-2.0
"""Run the gabbi files of OpenStack placement's own tests against a server over HTTP.

The interpreter of the peer's virtual environment runs ``python peer_gabbi.py DATABASE_URL`` with
the database of the server under test. It reads requests as lines of JSON, and writes a line for
each response. The first line of output is ``ready``.

``{"start": FILE}`` starts the fixture of a file, which creates its resource providers in the
database, and returns the options and policy rules that the fixture sets.
``{"run": URL, "lenient": URL}`` sends the requests of the file to the first URL over a kept-alive
connection, stops the fixture, and returns the number of tests, the failures and the skipped tests.

Two expectations of the files do not fit a service that is served over HTTP below a path:

* The expected links begin at the root. The path of the URL is put before each expected
  path.
* A request has ``Content-Length: hi mom``, which is not HTTP, and a server rejects it before the
  application reads it. It is sent to the first URL, which must return 400, and then to the lenient
  URL, whose server passes it to the same application.
"""

import json
import os
import sys
import unittest
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import fixtures
import httpx
from gabbi import handlers, suitemaker, utils
from placement import db_api
from placement.tests.functional.fixtures import gabbits
from placement.tests.unit import policy_fixture

GABBI_FOLDER = Path(gabbits.__file__).parents[1] / "gabbits"
#: The options that the fixtures set or rely on.
OPTIONS_OF_FIXTURES = {
    "api": ["auth_strategy"],
    "oslo_policy": ["enforce_new_defaults"],
    "cors": ["allowed_origin", "allow_headers"],
}


def main():
    responses = os.fdopen(os.dup(1), "w")
    # Output and logs of the fixtures are not part of a response.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    database = ServerDatabase(sys.argv[1])
    gabbits.fixtures.Database = database.build_database_fixture
    policy_fixture.PolicyFixture.set_rules = staticmethod(database.set_rules)
    responses.write("ready\n")
    responses.flush()
    file_run = None
    for line in sys.stdin:
        question = json.loads(line)
        if "start" in question:
            if file_run is not None:
                file_run.stop_fixture()  # if the server did not start, the fixture is still running
            file_run = GabbiFileRun(GABBI_FOLDER / question["start"], database)
            response = file_run.start_fixture()
        else:
            response = file_run.run_tests(question["run"], question["lenient"])
        responses.write(json.dumps(response) + "\n")
        responses.flush()


class ServerDatabase:
    """The database of the server under test, which replaces the database of the fixtures."""

    def __init__(self, url):
        self._url = url
        self._configured = False
        self.rules = None

    def build_database_fixture(self, conf_fixture, set_config):
        conf_fixture.config(connection=self._url, group="placement_database")
        if not self._configured:  # enginefacade takes a URL once
            db_api.configure(conf_fixture.conf)
            self._configured = True
        return fixtures.Fixture()

    def set_rules(self, rules, overwrite=True):
        self.rules = dict(rules)


class GabbiFileRun:
    """A gabbi file with its fixture."""

    def __init__(self, path, database):
        self._path = path
        self._database = database
        self._written = utils.load_yaml(yaml_file=str(path))
        (name,) = self._written.pop("fixtures")
        self._fixture = getattr(gabbits, name)()
        self._started = False

    def start_fixture(self):
        self._database.rules = None
        self._fixture.start_fixture()
        self._started = True
        options = {
            group: {name: getattr(gabbits.CONF[group], name) for name in names}
            for group, names in OPTIONS_OF_FIXTURES.items()
        }
        return {"options": options, "rules": self._database.rules}

    def stop_fixture(self):
        if self._started:
            self._started = False
            self._fixture.stop_fixture()

    def run_tests(self, url, lenient):
        address = urlsplit(url)
        http = KeepAliveHttp(address.netloc, urlsplit(lenient).netloc)
        # gabbi gives each test its own client and thus its own connection.
        suitemaker.httpclient = http
        result = unittest.TestResult()
        try:
            suite = suitemaker.test_suite_from_dict(
                loader=unittest.TestLoader(),
                test_base_name=self._path.stem,
                suite_dict=_add_prefix_to_expected_paths(address.path, self._written),
                test_directory=str(self._path.parent),
                host=address.hostname,
                port=address.port,
                prefix=address.path,
                fixture_module=None,
                intercept=None,
                handlers=[handler() for handler in handlers.RESPONSE_HANDLERS],
            )
            suite.run(result)
        finally:
            http.close()
            self.stop_fixture()
        failures = [f"{test}\n{reason}" for test, reason in (*result.errors, *result.failures)]
        passed_over = [*result.skipped, *result.expectedFailures]
        skipped = [f"{test}: {reason}" for test, reason in passed_over]
        skipped += [f"{test} was expected to fail" for test in result.unexpectedSuccesses]
        return {"tests": result.testsRun, "failures": failures, "skipped": skipped}


def _add_prefix_to_expected_paths(prefix, written):
    tests = []
    for test in written["tests"]:
        expected = test.get("response_json_paths", {})
        paths = {
            place: prefix + value if _is_path(value) else value for place, value in expected.items()
        }
        tests.append({**test, "response_json_paths": paths} if paths else test)
    return {**written, "tests": tests}


def _is_path(value):
    return isinstance(value, str) and value.startswith("/") and not value.endswith("/")


class KeepAliveHttp:
    """An HTTP client for gabbi that sends head and body separately, like requests does.

    gabbi's own client does not send a request whose Content-Length is not a number.
    """

    def __init__(self, host, lenient):
        self._connection = HTTPConnection(host, timeout=60)
        self._lenient = HTTPConnection(lenient, timeout=60)

    def get_http(self, **_options):
        return self

    def close(self):
        self._connection.close()
        self._lenient.close()

    def request(self, absolute_uri, method, body, headers, redirect, timeout):
        assert not redirect, "no file requests this"
        seen, content = _send_request(self._connection, absolute_uri, method, body, headers)
        if not headers.get("content-length", "0").isdecimal():
            assert seen["status"] == "400", "the server itself must reject the request"
            return _send_request(self._lenient, absolute_uri, method, body, headers)
        return seen, content


def _send_request(connection, url, method, body, headers):
    target = httpx.URL(url).raw_path.decode()  # spaces are encoded, as in gabbi's own client
    connection.putrequest(method, target, skip_accept_encoding=True)
    for name, value in headers.items():
        connection.putheader(name, value.encode())
    if body and "content-length" not in {name.lower() for name in headers}:
        connection.putheader("Content-Length", str(len(body)))
    try:
        connection.endheaders(body or None)
        response = connection.getresponse()
        content = response.read()
    except OSError:
        connection.close()  # this test fails, and the next test starts with a new connection
        raise
    seen = httpx.Headers(response.getheaders())
    seen["status"], seen["reason"] = str(response.status), response.reason
    return seen, content


if __name__ == "__main__":
    main()
