# SPDX-License-Identifier: Apache-2.0
"""Numbers of SQL statements, which do not depend on the size of the cloud."""

import pytest

from tests.support.scheduling import flavor, instance, report, spec
from tests.support.statements import record_statements
from tests.support.versions import LATEST_HEADERS

pytestmark = [pytest.mark.all_databases, pytest.mark.slow]

CANDIDATES = (
    "/placement/allocation_candidates?resources=VCPU:1,MEMORY_MB:512,DISK_GB:1"
    "&required=!HW_CPU_X86_AVX&member_of=!in:11111111-1111-1111-1111-111111111111&limit=1000"
)


@pytest.fixture(params=[20, 2_000], ids="{} hosts".format)
def cloud(app, request):
    app.post_json("/scheduler/v1/compute_nodes", [report(f"cn{n}") for n in range(request.param)])
    return app


def count_statements(app, send_request) -> list[int]:
    """Return how many statements the first request takes, and how many the next."""
    counts = []
    for number in range(2):
        with record_statements(app.app.services.database) as seen:
            send_request(number)
        counts.append(len(seen))
    return counts


def test_allocation_candidates_take_a_fixed_number_of_statements(cloud):
    # Ids of all names, the providers that may serve, their rows, and the names of all classes and
    # traits for summaries.
    seen = count_statements(cloud, lambda _: cloud.get(CANDIDATES, headers=LATEST_HEADERS))
    assert seen == [4, 4]


def select_host(app, *instances, **changes):
    body = {"request_spec": spec(*instances, **changes), "return_alternates": True}
    app.post_json("/scheduler/v1/select_destinations", body)


#: Statements of the first request and of the next request. The first request also loads reports and
#: aggregates, and creates project and user. SQLite counts the BEGIN of the claim. MySQL does not
#: return the new rows.
SELECTION_COUNTS = {"sqlite": [25, 18], "postgresql": [24, 17], "mysql": [26, 19]}


def test_select_destinations_takes_a_fixed_number_of_statements(cloud):
    counts = count_statements(cloud, lambda number: select_host(cloud, instance(number + 1)))
    assert counts == SELECTION_COUNTS[cloud.app.services.database.reader.dialect.name]


def test_statements_do_not_depend_on_the_number_of_instances(cloud):
    def send_request(number):
        uuids = [instance(100 * (number + 1) + n) for n in range((2, 10)[number])]
        select_host(cloud, *uuids, flavor=flavor(vcpus=2))

    count_statements(cloud, lambda number: select_host(cloud, instance(number + 1)))
    two, ten = count_statements(cloud, send_request)
    assert two == ten
