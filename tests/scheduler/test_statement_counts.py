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


def count_statements(app, send_request) -> list[int]:
    """Return how many statements the first request takes, and how many the next."""
    counts = []
    for number in range(2):
        with record_statements(app.app.services.database) as seen:
            send_request(number)
        counts.append(len(seen))
    return counts


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
    "sqlite": ([25, 18], [32, 32]),
    "postgresql": ([24, 17], [31, 31]),
    "mysql": ([26, 19], [33, 33]),
}


@pytest.mark.parametrize("size", [20, 300], ids="{} hosts".format)
def test_statement_count_of_a_selection_depends_neither_on_hosts_nor_on_instances(app, size):
    app.post_json("/scheduler/v1/compute_nodes", [make_report(f"cn{n}") for n in range(size)])
    alone, together = STATEMENT_COUNTS_BY_DATABASE[app.app.services.database.reader.dialect.name]
    assert count_statements(app, lambda number: select_host(app, number + 1)) == alone
    post_joint_request(app, 10)
    assert (
        count_statements(app, lambda number: post_joint_request(app, 20 + 10 * number)) == together
    )
    # Ids of all names, the providers that may serve, their rows, and the names of all classes and
    # traits for summaries.
    candidates = count_statements(
        app, lambda _: app.get(CANDIDATES_QUERY_PATH, headers=LATEST_HEADERS)
    )
    assert candidates == [4, 4]

    def select_hosts_for_several_instances(number):
        first = 100 * (number + 1)
        select_host(app, *range(first, first + (2, 10)[number]), flavor=make_flavor(vcpus=2))

    two, ten = count_statements(app, select_hosts_for_several_instances)
    assert two == ten
