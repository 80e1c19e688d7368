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
def pair(database_url, serve) -> Callable[..., requests.Response]:
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

        def ask(which: int, method: str, path: str, **body: object) -> requests.Response:
            answer = session.request(
                method, servers[which].url + path, json=body or None, timeout=120
            )
            answer.raise_for_status()
            return answer

        yield ask


def told(pair, which: int, **changes: object) -> dict[str, object]:
    """Return what each request filter of a server changed, by name."""
    asked = {"request_spec": spec(**changes)}
    funnel = pair(which, "POST", "/scheduler/v1/explain", **asked).json()["funnel"]
    return {one["name"]: one["changes"] for one in funnel["request_filters"]}


def test_change_of_aggregates_by_one_server_is_heeded_by_the_other(pair, record_property):
    pair(0, "PUT", f"/scheduler/v1/compute_nodes/{report('cn1')['uuid']}", **report("cn1"))
    pair(0, "PUT", "/placement/traits/CUSTOM_WINDOWS")
    aggregate = {"name": "agg", "availability_zone": None}
    made = pair(0, "POST", "/compute/v2.1/os-aggregates", aggregate=aggregate).json()["aggregate"]
    actions = f"/compute/v2.1/os-aggregates/{made['id']}/action"

    def forbidden(which: int, **changes: object) -> object:
        return told(pair, which, **changes)["forbidden_aggregates"].get("forbidden_aggregates")

    heeded = 0
    for writer, reader in ((0, 1), (1, 0)):
        assert forbidden(reader) is None
        pair(writer, "POST", actions, set_metadata={"metadata": WINDOWS})
        (uuid,) = forbidden(reader)
        assert forbidden(reader, flavor=flavor(extra_specs=WINDOWS)) is None
        tenant = {"metadata": {"filter_tenant_id": "p1", "trait:CUSTOM_WINDOWS": None}}
        pair(writer, "POST", actions, set_metadata=tenant)
        assert forbidden(reader) is None
        confined = told(pair, reader, project_id="p1")["require_tenant_aggregate"]
        assert confined == {"aggregates": [uuid]}
        pair(writer, "POST", actions, set_metadata={"metadata": {"filter_tenant_id": None}})
        heeded += 3
        assert told(pair, reader, project_id="p1")["require_tenant_aggregate"] == {}
    record_property(TRIED, f"2 servers, {heeded} changes of aggregates heeded by the other")
