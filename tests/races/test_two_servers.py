# SPDX-License-Identifier: Apache-2.0
"""Changes of aggregates through a server are visible to another server at once."""

from collections.abc import Callable

import pytest
import requests

from tests.chaos.scale import TRIED
from tests.support.scheduling import flavor, report, spec
from tests.support.versions import LATEST

pytestmark = [pytest.mark.all_databases, pytest.mark.system]

WINDOWS = {"trait:CUSTOM_WINDOWS": "required"}


@pytest.fixture
def send(database_url, serve) -> Callable[..., requests.Response]:
    """Give a function that sends a request to server 0 or 1 of a pair."""
    options = {
        "OS_PLACEMENT_DATABASE__CONNECTION": database_url,
        "OS_SCHEDULER__ENABLE_ISOLATED_AGGREGATE_FILTERING": "true",
        "OS_SCHEDULER__LIMIT_TENANTS_TO_PLACEMENT_AGGREGATE": "true",
    }
    servers = [serve(**options), serve(**options)]
    with requests.Session() as session:
        session.headers["X-Auth-Token"] = "admin"
        session.headers["OpenStack-API-Version"] = f"placement {LATEST}"

        def send_request(server: int, method: str, path: str, **body: object) -> requests.Response:
            response = session.request(
                method, servers[server].url + path, json=body or None, timeout=120
            )
            response.raise_for_status()
            return response

        yield send_request


def request_filter_changes(send, server: int, **changes: object) -> dict[str, object]:
    """Return the changes of each request filter of a server, by name."""
    body = {"request_spec": spec(**changes)}
    funnel = send(server, "POST", "/scheduler/v1/explain", **body).json()["funnel"]
    return {entry["name"]: entry["changes"] for entry in funnel["request_filters"]}


def test_aggregate_change_is_visible_to_the_other_server(send, record_property):
    send(0, "PUT", f"/scheduler/v1/compute_nodes/{report('cn1')['uuid']}", **report("cn1"))
    send(0, "PUT", "/placement/traits/CUSTOM_WINDOWS")
    body = {"name": "agg", "availability_zone": None}
    aggregate = send(0, "POST", "/compute/v2.1/os-aggregates", aggregate=body).json()["aggregate"]
    actions = f"/compute/v2.1/os-aggregates/{aggregate['id']}/action"

    def read_forbidden(server: int, **changes: object) -> object:
        filters = request_filter_changes(send, server, **changes)
        return filters["forbidden_aggregates"].get("forbidden_aggregates")

    def read_required(server: int) -> object:
        return request_filter_changes(send, server, project_id="p1")["require_tenant_aggregate"]

    number = 0
    for writer, reader in ((0, 1), (1, 0)):
        assert read_forbidden(reader) is None
        send(writer, "POST", actions, set_metadata={"metadata": WINDOWS})
        (uuid,) = read_forbidden(reader)
        assert read_forbidden(reader, flavor=flavor(extra_specs=WINDOWS)) is None
        tenant = {"metadata": {"filter_tenant_id": "p1", "trait:CUSTOM_WINDOWS": None}}
        send(writer, "POST", actions, set_metadata=tenant)
        assert read_forbidden(reader) is None
        assert read_required(reader) == {"aggregates": [uuid]}
        send(writer, "POST", actions, set_metadata={"metadata": {"filter_tenant_id": None}})
        assert read_required(reader) == {}
        number += 3
    record_property(TRIED, f"2 servers, {number} changes of aggregates visible to the other")
