# SPDX-License-Identifier: Apache-2.0
"""Writers that lock a row which they leave as it is, against others on other nodes at that moment.

``tests/galera/test_races.py`` has the invariants of groups, trees, classes and claims.
"""

from contextlib import suppress
from functools import partial
from uuid import uuid4

import pytest

from placement_sched.errors import NotFound
from placement_sched.model.clock import utcnow
from placement_sched.operations.repair import Healer, HealRequest
from tests.galera.nodes import failed_rounds, node_pairs, statuses
from tests.support.concurrency import run_concurrently
from tests.support.scheduling import report

pytestmark = pytest.mark.system

PROVIDERS = "/placement/resource_providers"
INSTANCES = "/scheduler/v1/instances"
#: The last version in which replacing a provider's aggregates leaves its generation as it is.
UNCOUNTED, COUNTED = "placement 1.18", "placement 1.19"
#: The providers of an aggregate that are gone, and the aggregates that a provider is in.
ORPHANS = (
    "SELECT resource_provider_id FROM resource_provider_aggregates AS pair "
    "JOIN placement_aggregates AS aggregate ON aggregate.id = pair.aggregate_id "
    "WHERE resource_provider_id NOT IN (SELECT id FROM resource_providers) "
    "AND aggregate.uuid = '{}'"
)
MEMBER = (
    "SELECT aggregate.uuid FROM placement_aggregates AS aggregate "
    "JOIN resource_provider_aggregates AS pair ON pair.aggregate_id = aggregate.id "
    "JOIN resource_providers AS provider ON provider.id = pair.resource_provider_id "
    "WHERE provider.uuid = '{}'"
)


def create_provider(nodes):
    return nodes.create("POST", PROVIDERS, {"name": str(uuid4())})["uuid"]


def replace_aggregates_request(node, uuid, aggregate):
    """What makes an aggregate the only one of a provider, as clients before 1.19 ask for it."""
    return node, "PUT", f"{PROVIDERS}/{uuid}/aggregates", [aggregate], UNCOUNTED


def test_deleted_provider_is_in_no_aggregate(nodes):
    def race(_number, via):
        uuid, aggregate = create_provider(nodes), str(uuid4())
        joins, deletes = via
        answers = nodes.send_concurrently(
            replace_aggregates_request(joins, uuid, aggregate),
            (deletes, "DELETE", f"{PROVIDERS}/{uuid}", None),
        )
        assert not nodes.read_rows(ORPHANS.format(aggregate))
        assert statuses(answers) in ([200, 204], [204, 404])

    assert failed_rounds(node_pairs(), race) == []


def test_last_replacement_of_aggregates_wins(nodes):
    def race(_number, via):
        uuid, wanted = create_provider(nodes), [str(uuid4()), str(uuid4())]
        answers = nodes.send_concurrently(
            *(replace_aggregates_request(n, uuid, one) for n, one in zip(via, wanted, strict=True))
        )
        assert statuses(answers) == [200, 200]
        assert nodes.read_rows(MEMBER.format(uuid)) in [[(one,)] for one in wanted]

    assert failed_rounds(node_pairs(), race) == []


def test_aggregate_replacements_with_and_without_generation_do_not_mix(nodes):
    def race(_number, via):
        uuid, wanted = create_provider(nodes), [str(uuid4()), str(uuid4())]
        asked = {"aggregates": wanted[:1], "resource_provider_generation": 0}
        counted = (via[0], "PUT", f"{PROVIDERS}/{uuid}/aggregates", asked, COUNTED)
        answers = nodes.send_concurrently(
            counted, replace_aggregates_request(via[1], uuid, wanted[1])
        )
        assert statuses(answers) == [200, 200]
        assert nodes.read_rows(MEMBER.format(uuid)) in [[(one,)] for one in wanted]

    assert failed_rounds(node_pairs(), race) == []


def test_aggregate_replacement_without_generation_keeps_the_provider(nodes):
    uuid = create_provider(nodes)
    shown = f"SELECT * FROM resource_providers WHERE uuid = '{uuid}'"
    before = nodes.read_rows(shown)
    assert nodes.request(*replace_aggregates_request(1, uuid, str(uuid4()))).status_int == 200
    assert nodes.read_rows(shown) == before


def test_deleted_instance_gets_no_allocations(nodes):
    nodes.create("POST", "/scheduler/v1/compute_nodes", [report("cn1", vcpus=1024)])
    database = [one.app.services.database for one in nodes.clients]
    flavor = {"vcpus": 1, "memory_mb": 0, "root_gb": 0}

    def race(_number, via):
        uuid = str(uuid4())
        recorded = {"host": "cn1", "node": "cn1", "project_id": "p", "user_id": "u"}
        nodes.create("PUT", f"{INSTANCES}/{uuid}", {**recorded, "flavor": flavor})
        heals, deletes = via
        wanted = HealRequest(instance=uuid)
        healer = Healer(database=database[heals], clock=utcnow, no_owner=("p", "u"), wanted=wanted)
        _, answer = run_concurrently(
            partial(run_heal, healer),
            partial(nodes.request, deletes, "DELETE", f"{INSTANCES}/{uuid}"),
        )
        assert answer.status_int == 204
        assert not nodes.read_rows(f"SELECT id FROM allocations WHERE consumer_id = '{uuid}'")

    assert failed_rounds(node_pairs(), race) == []


def run_heal(healer):
    """What a repair of an instance does, which may be gone before it begins."""
    with suppress(NotFound):
        list(healer.heal())
