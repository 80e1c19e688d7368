# SPDX-License-Identifier: Apache-2.0
"""Numbers of SQL statements, which do not depend on the size of the cloud."""

import pytest

from tests.support.scheduling import make_flavor, make_report, make_spec, make_uuid
from tests.support.statements import record_statements
from tests.support.versions import LATEST_HEADERS

pytestmark = [pytest.mark.all_databases, pytest.mark.slow]

SELECT_PATH = "/scheduler/v1/select_destinations"
CANDIDATES_QUERY_PATH = (
    "/placement/allocation_candidates?resources=VCPU:1,MEMORY_MB:512,DISK_GB:1"
    "&required=!HW_CPU_X86_AVX&member_of=!in:11111111-1111-1111-1111-111111111111&limit=1000"
)


def count_statements(app, send_request):
    """Count the statements of two requests, and of their cache refreshes."""
    counts, refreshes = [], []
    for number in range(2):
        with record_statements(app.app.services.database) as seen:
            send_request(number)
        counts.append(len(seen))
        refreshes.append([len(refresh) for refresh in seen.refreshes])
    return counts, refreshes


def select_host(app, *numbers, **changes):
    request = make_spec(*map(make_uuid, numbers), **changes)
    app.post_json(SELECT_PATH, {"request_spec": request, "return_alternates": True})


def post_joint_request(app, first):
    requests = [make_spec(make_uuid(first)), make_spec(make_uuid(first + 1), make_uuid(first + 2))]
    app.post_json(SELECT_PATH, {"requests": [{"request_spec": request} for request in requests]})


#: Statements of the first request, of the next request, and of two requests in a call. The first
#: request also loads reports and aggregates, and creates project and user. Two requests in a call
#: have a single claim. SQLite counts the BEGIN of the claim. MySQL does not return the new rows.
STATEMENT_COUNTS_BY_DATABASE = {
    "sqlite": ([22, 15], [26, 26]),
    "postgresql": ([21, 14], [25, 25]),
    "mysql": ([23, 16], [27, 27]),
}
#: Statements that fill the provider cache.
CACHE_FILL_STATEMENTS_BY_DATABASE = {"sqlite": 14, "postgresql": 15, "mysql": 16}
for_each_cloud_size = pytest.mark.parametrize("size", [20, 300], ids="{} hosts".format)


def report_hosts(app, size):
    app.post_json("/scheduler/v1/compute_nodes", [make_report(f"cn{n}") for n in range(size)])


def get_candidates(app):
    app.get(CANDIDATES_QUERY_PATH, headers=LATEST_HEADERS)


@for_each_cloud_size
def test_statement_count_of_a_selection_depends_neither_on_hosts_nor_on_instances(app, size):
    report_hosts(app, size)
    dialect = app.app.services.database.reader.dialect.name
    alone, together = STATEMENT_COUNTS_BY_DATABASE[dialect]
    # A refresh reads the change log, and then the providers of the last claim.
    fill = CACHE_FILL_STATEMENTS_BY_DATABASE[dialect]
    assert count_statements(app, lambda number: select_host(app, number + 1)) == (
        alone,
        [[fill], [2]],
    )
    post_joint_request(app, 10)
    assert count_statements(app, lambda number: post_joint_request(app, 20 + 10 * number)) == (
        together,
        [[2, 1], [2, 1]],
    )
    # A search in the provider cache reads only the change log.
    assert count_statements(app, lambda _: get_candidates(app)) == ([0, 0], [[2], [1]])

    def select_hosts_for_several_instances(number):
        first = 100 * (number + 1)
        select_host(app, *range(first, first + (2, 10)[number]), flavor=make_flavor(vcpus=2))

    (two, ten), refreshes = count_statements(app, select_hosts_for_several_instances)
    assert two == ten
    assert refreshes == [[1], [2]]


@for_each_cloud_size
def test_statement_count_of_a_search_without_the_cache_does_not_depend_on_hosts(
    app_without_cache, size
):
    report_hosts(app_without_cache, size)
    get_candidates(app_without_cache)
    # Ids of all names, the providers that may serve, their rows, and the names of all classes and
    # traits for summaries.
    counts = count_statements(app_without_cache, lambda _: get_candidates(app_without_cache))
    assert counts == ([4, 4], [[], []])
