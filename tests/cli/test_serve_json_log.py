# SPDX-License-Identifier: Apache-2.0
"""Request log lines of a server with ``use_json``."""

import json
from collections.abc import Callable, Iterator

import pytest
import requests

from tests.cli.servers import GLOBAL_REQUEST_ID, wait_for_access_line
from tests.support import identity
from tests.support.identity import build_keystone_config
from tests.support.servers import start_servers

pytestmark = pytest.mark.system

#: Method, path and token of a request, and the API, route and status in its log line.
LOGGED_REQUESTS = [
    ("GET", "/placement/traits", "admin", "placement", "/traits", 200),
    ("GET", "/scheduler/v1/decisions", "admin", "scheduler", "/v1/decisions", 200),
    ("GET", "/compute/v2.1/os-services", "admin", "compute", "/v2.1/os-services", 200),
    ("GET", "/image/v2/images", "admin", "image", "/v2/images", 200),
    ("GET", "/identity/v3", "admin", "identity", "/v3", 200),
    ("GET", "/", "admin", None, None, 200),
    ("GET", "/placement/traits", "stranger", "placement", "/traits", 401),
    ("GET", "/placement/traits", "reader", "placement", "/traits", 403),
    ("GET", "/placement/traits?x=1", "admin", "placement", "/traits", 400),
    ("GET", "/compute/v2.1/nothing", "admin", "compute", "", 404),
    ("DELETE", "/scheduler/v1/decisions", "admin", "scheduler", "", 405),
    ("POST", "/scheduler/v1/explain", "admin", "scheduler", "/v1/explain", 415),
    ("GET", "/nothing", "admin", None, None, 404),
]


@pytest.fixture(scope="module")
def send_and_read_log_line(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[..., tuple[dict, str]]]:
    """Return a function that sends a request and returns its log line and its id."""
    folder = tmp_path_factory.mktemp("json")
    with identity.run_keystone() as keystone, start_servers(folder) as serve:
        (folder / "placement.conf").write_text(build_keystone_config(keystone.url))
        server = serve("--config-file", "placement.conf", OS_DEFAULT__USE_JSON="true")
        tokens = {
            "admin": keystone.issue_token("ann", "shop", "admin"),
            "reader": keystone.issue_token("bob", "shop", "nothing"),
            "stranger": "unknown",
        }

        def send_request(method: str, path: str, user: str, **options: object) -> tuple[dict, str]:
            headers = {
                "X-Auth-Token": tokens[user],
                "X-Openstack-Request-Id": GLOBAL_REQUEST_ID,
                "OpenStack-API-Version": "placement 1.39",
            }
            response = requests.request(
                method,
                server.url + path,
                headers=headers,
                timeout=60,
                allow_redirects=False,
                **options,
            )
            request_id = response.headers["x-openstack-request-id"]
            return json.loads(wait_for_access_line(server, request_id)), request_id

        yield send_request


@pytest.mark.parametrize(("method", "path", "user", "api", "route", "status"), LOGGED_REQUESTS)
def test_json_log_line_has_ids_caller_route_status_and_time(
    send_and_read_log_line, method, path, user, api, route, status
):
    line, request_id = send_and_read_log_line(method, path, user)
    context, about = line["context"], line["extra"]
    assert (context["request_id"], context["global_request_id"]) == (request_id, GLOBAL_REQUEST_ID)
    assert context["auth_token"] is None
    caller = {"admin": "ann", "reader": "bob"}.get(user)
    assert (context["user"], context["project_id"]) == (caller, caller and "shop")
    assert (about["method"], about["path"]) == (method, path)
    assert (about["api"], about["route"], about["status"]) == (api, route, status)
    assert 0 < about["duration_ms"] < 60_000
    assert about["client"] == "127.0.0.1"


def test_request_with_too_large_body_is_logged_as_413(send_and_read_log_line):
    line, _ = send_and_read_log_line(
        "POST", "/placement/resource_providers", "admin", json=" " * (17 << 20)
    )
    assert line["extra"]["status"] == 413
