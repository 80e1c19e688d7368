# SPDX-License-Identifier: Apache-2.0
"""Races between writers that only lock a row and writers on other nodes that change it."""

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
#: Until 1.18, replacing a provider's aggregates leaves its generation unchanged.
WITHOUT_GENERATION, WITH_GENERATION = "placement 1.18", "placement 1.19"
#: Deleted providers that are still members of an aggregate, and the aggregates of a provider.
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
    """Return a request that replaces a provider's aggregates, as clients before 1.19 send it."""
    return node, "PUT", f"{PROVIDERS}/{uuid}/aggregates", [aggregate], WITHOUT_GENERATION


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
        uuid, aggregates = create_provider(nodes), [str(uuid4()), str(uuid4())]
        answers = nodes.send_concurrently(
            *(
                replace_aggregates_request(node, uuid, aggregate)
                for node, aggregate in zip(via, aggregates, strict=True)
            )
        )
        assert statuses(answers) == [200, 200]
        assert nodes.read_rows(MEMBER.format(uuid)) in [[(uuid,)] for uuid in aggregates]

    assert failed_rounds(node_pairs(), race) == []


def test_aggregate_replacements_with_and_without_generation_do_not_mix(nodes):
    def race(_number, via):
        uuid, aggregates = create_provider(nodes), [str(uuid4()), str(uuid4())]
        body = {"aggregates": aggregates[:1], "resource_provider_generation": 0}
        counted = (via[0], "PUT", f"{PROVIDERS}/{uuid}/aggregates", body, WITH_GENERATION)
        answers = nodes.send_concurrently(
            counted, replace_aggregates_request(via[1], uuid, aggregates[1])
        )
        assert statuses(answers) == [200, 200]
        assert nodes.read_rows(MEMBER.format(uuid)) in [[(uuid,)] for uuid in aggregates]

    assert failed_rounds(node_pairs(), race) == []


def test_aggregate_replacement_without_generation_leaves_the_provider_unchanged(nodes):
    uuid = create_provider(nodes)
    provider_rows = f"SELECT * FROM resource_providers WHERE uuid = '{uuid}'"
    before = nodes.read_rows(provider_rows)
    assert nodes.request(*replace_aggregates_request(1, uuid, str(uuid4()))).status_int == 200
    assert nodes.read_rows(provider_rows) == before


def test_deleted_instance_gets_no_allocations(nodes):
    nodes.create("POST", "/scheduler/v1/compute_nodes", [report("cn1", vcpus=1024)])
    databases = [client.app.services.database for client in nodes.clients]
    flavor = {"vcpus": 1, "memory_mb": 0, "root_gb": 0}

    def race(_number, via):
        uuid = str(uuid4())
        instance = {"host": "cn1", "node": "cn1", "project_id": "p", "user_id": "u"}
        nodes.create("PUT", f"{INSTANCES}/{uuid}", {**instance, "flavor": flavor})
        heals, deletes = via
        request = HealRequest(instance=uuid)
        healer = Healer(
            database=databases[heals], clock=utcnow, no_owner=("p", "u"), wanted=request
        )
        _, answer = run_concurrently(
            partial(run_heal, healer),
            partial(nodes.request, deletes, "DELETE", f"{INSTANCES}/{uuid}"),
        )
        assert answer.status_int == 204
        assert not nodes.read_rows(f"SELECT id FROM allocations WHERE consumer_id = '{uuid}'")

    assert failed_rounds(node_pairs(), race) == []


def run_heal(healer):
    """Repair the allocations of an instance that another client may delete."""
    with suppress(NotFound):
        list(healer.heal())
