# SPDX-License-Identifier: Apache-2.0
"""Statement counts of the loader depend on the batches, not on the trees."""

import pytest

from tests.candidates.documented import provider
from tests.candidates.reference import SHARING_TRAIT
from tests.support.clouds import Cloud, load_cloud
from tests.support.statements import record_statements
from tests.support.versions import LATEST_HEADERS

pytestmark = [pytest.mark.all_databases, pytest.mark.slow]

TREE_COUNTS = [20, 500, pytest.param(2000, marks=pytest.mark.exhaustive)]
NESTED_PROVIDERS_QUERY = (
    "resources=DISK_GB:1&resources_CPU=VCPU:1&resources_NET=SRIOV_NET_VF:1"
    "&required_NET=CUSTOM_GOLD&same_subtree=_CPU,_NET&group_policy=isolate"
)
SHARED_DISK_QUERY = (
    "resources=VCPU:1,DISK_GB:1&required=CUSTOM_GOLD"
    "&member_of=!in:11111111-1111-1111-1111-111111111111"
)

#: Numbers of batches and of candidates by number of trees and limit.
BATCH_AND_CANDIDATE_COUNTS = {
    (20, "limit=10"): (1, 10),
    (500, "limit=10"): (1, 10),
    (2000, "limit=10"): (1, 10),
    (20, "limit=1000"): (1, 20),
    (500, "limit=1000"): (2, 500),
    (2000, "limit=1000"): (2, 1000),
    (20, ""): (1, 20),
    (500, ""): (2, 500),
    (2000, ""): (2, 2000),
}


def _build_nested_host(number):
    host = f"CN{number:04}"
    yield provider(host, {"DISK_GB": 9})
    yield provider(f"{host} NUMA", {"VCPU": 8}, under=host)
    traits = ["CUSTOM_GOLD"]
    yield provider(f"{host} PF", {"SRIOV_NET_VF": 8}, under=f"{host} NUMA", traits=traits)


def _build_host_and_shared_disk(number):
    pool = f"pool {number % 4}"
    if number < 4:
        yield provider(pool, {"DISK_GB": 99_999}, traits=[SHARING_TRAIT], aggregates=[pool])
    yield provider(f"CN{number:04}", {"VCPU": 8}, traits=["CUSTOM_GOLD"], aggregates=[pool])


def _load_trees(app, members, trees):
    load_cloud(app.app.services.database, Cloud(tuple(m for n in range(trees) for m in members(n))))
    app.get(
        "/placement/allocation_candidates?resources=PCPU:1", headers=LATEST_HEADERS
    )  # the first request loads names
    return app


def _count_statements_and_candidates(app, query):
    """Return the numbers of statements and of candidates of a repeated query."""
    for _ in range(2):
        with record_statements(app.app.services.database) as recorded_statements:
            response = app.get(
                f"/placement/allocation_candidates?{query}", headers=LATEST_HEADERS
            ).json
    return len(recorded_statements), len(response["allocation_requests"])


@pytest.mark.parametrize("trees", TREE_COUNTS)
@pytest.mark.parametrize(
    ("members", "query", "statements"),
    [
        (_build_nested_host, NESTED_PROVIDERS_QUERY, 3),
        (_build_host_and_shared_disk, SHARED_DISK_QUERY, 4),
    ],
    ids=["nested", "sharing"],
)
def test_search_of_trees_takes_a_constant_number_of_statements_per_batch(
    app_without_cache, members, query, statements, trees
):
    _load_trees(app_without_cache, members, trees)
    for limit in ("limit=10", "limit=1000", ""):
        batches, responses = BATCH_AND_CANDIDATE_COUNTS[trees, limit]
        # Two statements for names, then per batch: roots, members, sharing providers, and rows of
        # at most 5 000 providers.
        more = int(responses == 2000 and statements == 3)
        counts = _count_statements_and_candidates(app_without_cache, f"{query}&{limit}".rstrip("&"))
        assert counts == (2 + statements * batches + more, responses)
