# SPDX-License-Identifier: Apache-2.0
"""Violations of servers, compared with explanations on a cloud without the server."""

from collections import Counter

import pytest

from placement_sched.extensions.what_if.violations.report import report_violations
from tests.exploring import SeededRandom, scale_example_count
from tests.extensions.what_if.violations.clouds import (
    OPTIONS,
    RULES,
    draw_cloud,
    find_rejected_servers,
    load,
)


def report(app, hosts=None):
    return report_violations(app.app.services.scheduler, hosts)


def map_stages(result):
    return {
        each["uuid"]: {(one["stage"], one["name"], one["kind"]) for one in each["reasons"]}
        for each in result["violations"]
    }


@pytest.mark.slow
def test_violations_are_servers_that_explain_rejects_on_their_hosts(make_new_app):
    kinds = Counter()
    for number in range(scale_example_count(60)):
        document, statements = draw_cloud(SeededRandom.numbered(number))
        result = report(load(make_new_app(**OPTIONS), document, statements))
        rejected = find_rejected_servers(lambda: make_new_app(**RULES), document, statements)
        failed = {uuid for uuid, stages in rejected.items() if stages is None}
        expected = {uuid: stages for uuid, stages in rejected.items() if stages is not None}
        assert map_stages(result) == expected, (number, document, statements)
        unexamined = {uuid for each in result["unexamined"] for uuid in each["examples"]}
        without = {each["uuid"] for each in document["instances"] if not each["allocations"]}
        assert unexamined == failed | without, (number, result["unexamined"])
        kinds.update(kind for stages in expected.values() for _, _, kind in stages)
    print(kinds)
    assert 0
