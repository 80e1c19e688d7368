# SPDX-License-Identifier: Apache-2.0
"""Apache httpd serves with the example for mod_wsgi."""

import re
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPSConnection
from pathlib import Path
from ssl import create_default_context
from urllib.parse import urlsplit

import pytest
import requests

from placement_sched.config.conf import new_conf
from placement_sched.scheduler.plugins import read_settings
from tests.deploy import apache, check_long_queries
from tests.support.servers import wait_until

pytestmark = pytest.mark.system

ADMIN = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[str, Path]]:
    with apache.serving() as found:
        yield found


@pytest.fixture
def ask(served):
    """Return a function that asks for a path, by default as the administrator."""
    url, signed = served

    def ask(path, method="GET", headers=ADMIN, **more):
        return requests.request(
            method, url + path, headers=headers, verify=str(signed), timeout=60, **more
        )

    return ask


def test_it_reads_and_writes(ask):
    assert ask("/healthz/ready").status_code == 200
    made = ask("/placement/resource_providers", "POST", json={"name": "cn1"})
    assert made.status_code == 200
    found = ask("/placement/resource_providers").json()["resource_providers"]
    assert [one["name"] for one in found] == ["cn1"]
    assert ask("/placement/resource_providers", headers={}).status_code == 401


def test_links_have_the_scheme_of_tls(ask, served):
    documents = ask("/compute").json()["versions"]
    links = [link["href"] for version in documents for link in version["links"]]
    assert links
    assert all(link.startswith(served[0]) for link in links)


@pytest.mark.parametrize(
    "forged",
    [
        {"Forwarded": "host=evil.example;proto=http"},
        {
            "X-Forwarded-Host": "evil.example",
            "X-Forwarded-Proto": "http",
            "X-Forwarded-Port": "1",
            "X-Forwarded-Prefix": "/evil",
        },
    ],
    ids=["forwarded", "x-forwarded"],
)
def test_links_are_those_of_apache_whatever_a_client_says(ask, served, forged):
    documents = ask("/compute", headers=ADMIN | forged).json()["versions"]
    links = [link["href"] for version in documents for link in version["links"]]
    assert links
    assert all(link.startswith(f"{served[0]}/compute/") for link in links)


def test_address_in_the_log_is_that_of_the_client_whatever_it_says(ask, served):
    sent = ask("/placement/", headers={"X-Forwarded-For": "192.0.2.99"})
    log = served[1].parent / "proxy.log"
    assert wait_until(lambda: sent.headers["x-openstack-request-id"] in log.read_text())
    assert "192.0.2.99" not in log.read_text()


def test_encoded_slash_reaches_the_application(ask):
    answer = ask("/placement/resource_classes/CUSTOM_A%2FB")
    assert answer.status_code == 404
    assert answer.json()["errors"][0]["request_id"].startswith("req-")


def test_body_beyond_the_limit_is_refused(ask):
    most = read_settings((), new_conf()).api.max_request_body_size
    answer = ask("/placement/resource_providers", "POST", data=b"x" * (most + 1))
    assert answer.status_code == 413


def test_long_query_is_answered_and_a_longer_one_is_told_the_limit(served):
    check_long_queries(served[0], verify=str(served[1]))


def test_header_with_an_underscore_is_dropped(served):
    where, trusted = urlsplit(served[0]), create_default_context(cafile=served[1])
    connection = HTTPSConnection(where.hostname, where.port, context=trusted, timeout=60)
    with closing(connection):
        connection.request("GET", "/placement/traits", headers={"X_Auth_Token": "admin"})
        assert connection.getresponse().status == 401


def test_figures_of_all_processes_are_added_up(ask):
    route = re.compile(r'^placement_sched_requests_total\{.*route="/traits",status="200"\} (\S+)')

    def counted():
        lines = ask("/metrics").text.splitlines()
        return sum(float(found[1]) for line in lines if (found := route.match(line)))

    for _ in range(24):
        assert ask("/placement/traits").status_code == 200
    assert {counted() for _ in range(8)} == {24.0}


def test_log_of_the_application_is_in_that_of_apache(served, ask):
    log = served[1].parent / "proxy.log"
    sent = ask("/placement/").headers["x-openstack-request-id"]
    assert wait_until(lambda: sent in log.read_text())
    assert "Traceback" not in log.read_text()
