# SPDX-License-Identifier: Apache-2.0
"""What one server is told of aggregates, another on the same database heeds at once."""

from collections.abc import Callable

import pytest
import requests

from tests.chaos.scale import TRIED
from tests.support.scheduling import flavor, report, spec
from tests.support.versions import LATEST

pytestmark = [pytest.mark.all_databases, pytest.mark.system]

WINDOWS = {"trait:CUSTOM_WINDOWS": "required"}


@pytest.fixture
def request_of_pair(database_url, serve) -> Callable[..., requests.Response]:
    """Ask one of two servers, 0 or 1."""
    options = {
        "OS_PLACEMENT_DATABASE__CONNECTION": database_url,
        "OS_SCHEDULER__ENABLE_ISOLATED_AGGREGATE_FILTERING": "true",
        "OS_SCHEDULER__LIMIT_TENANTS_TO_PLACEMENT_AGGREGATE": "true",
    }
    servers = [serve(**options), serve(**options)]
    with requests.Session() as session:
        session.headers["X-Auth-Token"] = "admin"
        session.headers["OpenStack-API-Version"] = f"placement {LATEST}"

        def send(which: int, method: str, path: str, **body: object) -> requests.Response:
            answer = session.request(
                method, servers[which].url + path, json=body or None, timeout=120
            )
            answer.raise_for_status()
            return answer

        yield send


def request_filter_changes(pair, which: int, **changes: object) -> dict[str, object]:
    """Return what each request filter of a server changed, by name."""
    asked = {"request_spec": spec(**changes)}
    funnel = pair(which, "POST", "/scheduler/v1/explain", **asked).json()["funnel"]
    return {one["name"]: one["changes"] for one in funnel["request_filters"]}


def test_aggregate_change_is_visible_to_the_other_server(request_of_pair, record_property):
    request_of_pair(
        0, "PUT", f"/scheduler/v1/compute_nodes/{report('cn1')['uuid']}", **report("cn1")
    )
    request_of_pair(0, "PUT", "/placement/traits/CUSTOM_WINDOWS")
    aggregate = {"name": "agg", "availability_zone": None}
    made = request_of_pair(0, "POST", "/compute/v2.1/os-aggregates", aggregate=aggregate).json()[
        "aggregate"
    ]
    actions = f"/compute/v2.1/os-aggregates/{made['id']}/action"

    def read_changes(which: int, **changes: object) -> object:
        return request_filter_changes(request_of_pair, which, **changes)[
            "forbidden_aggregates"
        ].get("forbidden_aggregates")

    heeded = 0
    for writer, reader in ((0, 1), (1, 0)):
        assert read_changes(reader) is None
        request_of_pair(writer, "POST", actions, set_metadata={"metadata": WINDOWS})
        (uuid,) = read_changes(reader)
        assert read_changes(reader, flavor=flavor(extra_specs=WINDOWS)) is None
        tenant = {"metadata": {"filter_tenant_id": "p1", "trait:CUSTOM_WINDOWS": None}}
        request_of_pair(writer, "POST", actions, set_metadata=tenant)
        assert read_changes(reader) is None
        confined = request_filter_changes(request_of_pair, reader, project_id="p1")[
            "require_tenant_aggregate"
        ]
        assert confined == {"aggregates": [uuid]}
        request_of_pair(
            writer, "POST", actions, set_metadata={"metadata": {"filter_tenant_id": None}}
        )
        heeded += 3
        assert (
            request_filter_changes(request_of_pair, reader, project_id="p1")[
                "require_tenant_aggregate"
            ]
            == {}
        )
    record_property(TRIED, f"2 servers, {heeded} changes of aggregates heeded by the other")
