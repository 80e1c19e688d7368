# SPDX-License-Identifier: Apache-2.0
"""Apache httpd with the example for mod_wsgi."""

import re
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPSConnection
from pathlib import Path
from ssl import create_default_context
from urllib.parse import urlsplit

import pytest
import requests

from placement_sched.config.conf import create_conf
from placement_sched.scheduler.plugins import read_settings
from tests.deploy import apache, check_query_length_limit
from tests.support.servers import wait_until

pytestmark = pytest.mark.system

ADMIN_HEADERS = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}


@pytest.fixture(scope="module")
def apache_address() -> Iterator[tuple[str, Path]]:
    with apache.run_apache() as address:
        yield address


@pytest.fixture
def send_request(apache_address):
    """Return a function that sends a request, by default as the administrator."""
    url, signed = apache_address

    def send_request(path, method="GET", headers=ADMIN_HEADERS, **options):
        return requests.request(
            method, url + path, headers=headers, verify=str(signed), timeout=60, **options
        )

    return send_request


def test_apache_serves_reads_and_writes(send_request):
    assert send_request("/healthz/ready").status_code == 200
    response = send_request("/placement/resource_providers", "POST", json={"name": "cn1"})
    assert response.status_code == 200
    providers = send_request("/placement/resource_providers").json()["resource_providers"]
    assert [provider["name"] for provider in providers] == ["cn1"]
    assert send_request("/placement/resource_providers", headers={}).status_code == 401


def test_links_behind_apache_begin_with_its_https_address(send_request, apache_address):
    documents = send_request("/compute").json()["versions"]
    links = [link["href"] for version in documents for link in version["links"]]
    assert links
    assert all(link.startswith(apache_address[0]) for link in links)


@pytest.mark.parametrize(
    "forged_headers",
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
def test_links_behind_apache_ignore_host_headers_of_clients(
    send_request, apache_address, forged_headers
):
    documents = send_request("/compute", headers=ADMIN_HEADERS | forged_headers).json()["versions"]
    links = [link["href"] for version in documents for link in version["links"]]
    assert links
    assert all(link.startswith(f"{apache_address[0]}/compute/") for link in links)


def test_client_address_in_the_apache_log_ignores_forwarded_headers(send_request, apache_address):
    sent = send_request("/placement/", headers={"X-Forwarded-For": "192.0.2.99"})
    log = apache_address[1].parent / "proxy.log"
    assert wait_until(lambda: sent.headers["x-openstack-request-id"] in log.read_text())
    assert "192.0.2.99" not in log.read_text()


def test_encoded_slash_behind_apache_is_404_of_the_application(send_request):
    response = send_request("/placement/resource_classes/CUSTOM_A%2FB")
    assert response.status_code == 404
    assert response.json()["errors"][0]["request_id"].startswith("req-")


def test_body_beyond_the_limit_is_rejected_by_apache(send_request):
    limit = read_settings((), create_conf()).api.max_request_body_size
    response = send_request("/placement/resource_providers", "POST", data=b"x" * (limit + 1))
    assert response.status_code == 413


def test_query_beyond_the_limit_is_rejected_by_apache(apache_address):
    check_query_length_limit(apache_address[0], verify=str(apache_address[1]))


def test_header_with_an_underscore_is_dropped_by_apache(apache_address):
    url, trusted = urlsplit(apache_address[0]), create_default_context(cafile=apache_address[1])
    connection = HTTPSConnection(url.hostname, url.port, context=trusted, timeout=60)
    with closing(connection):
        connection.request("GET", "/placement/traits", headers={"X_Auth_Token": "admin"})
        assert connection.getresponse().status == 401


def test_metrics_behind_apache_are_sums_of_all_processes(send_request):
    route = re.compile(r'^placement_sched_requests_total\{.*route="/traits",status="200"\} (\S+)')

    def sum_requests_of_traits():
        lines = send_request("/metrics").text.splitlines()
        return sum(float(match[1]) for line in lines if (match := route.match(line)))

    for _ in range(24):
        assert send_request("/placement/traits").status_code == 200
    assert {sum_requests_of_traits() for _ in range(8)} == {24.0}


def test_apache_log_contains_request_ids_of_the_application_and_no_traceback(
    apache_address, send_request
):
    log = apache_address[1].parent / "proxy.log"
    sent = send_request("/placement/").headers["x-openstack-request-id"]
    assert wait_until(lambda: sent in log.read_text())
    assert "Traceback" not in log.read_text()
