# SPDX-License-Identifier: Apache-2.0
"""The clouds of the benchmarks."""

from collections import Counter

import pytest
import queries
from load import load
from worlds import (
    COLUMNS,
    GROUP_SIZE,
    NETWORKS,
    UNUSED_TRAIT,
    WORLDS,
    Book,
    FlatWorld,
    NestedWorld,
    SharedWorld,
    class_id,
)

from placement_sched.db import tables
from tests.support.versions import LATEST_HEADERS

pytestmark = pytest.mark.slow


class TraitIdsByName(dict):
    """A table of traits that assigns an id to every new name."""

    def __missing__(self, name: str) -> int:
        self[name] = len(self) + 1
        return self[name]


def build_cloud_rows(world):
    book = Book(TraitIdsByName())
    for _ in world.fill(book):
        pass
    return book.take()


def sum_used_amounts(rows):
    """Return the used amount of each provider and class."""
    used = Counter()
    for provider, _consumer, resource_class, amount in rows[tables.allocations]:
        used[provider, resource_class] += amount
    return used


def test_rows_of_a_benchmark_cloud_depend_only_on_seed_and_size():
    for kind, make in WORLDS.items():
        rows, large = build_cloud_rows(make(10, 1)), build_cloud_rows(make(25, 1))
        assert build_cloud_rows(make(10, 1)) == rows, kind
        assert build_cloud_rows(make(10, 2)) != rows, kind
        # Racks and pools come after the other aggregates, so their ids follow from the size.
        for table in COLUMNS.keys() - {tables.resource_provider_aggregates}:
            assert large[table][: len(rows[table])] == rows[table], kind


def test_no_provider_of_a_benchmark_cloud_exceeds_its_capacity():
    for kind, make in WORLDS.items():
        rows = build_cloud_rows(make(100, 1))
        used = sum_used_amounts(rows)
        for provider, resource_class, total, reserved, *_, ratio in rows[tables.inventories]:
            assert used[provider, resource_class] <= (total - reserved) * ratio, kind


def test_provider_tree_of_a_nested_benchmark_cloud_has_seven_providers():
    rows = build_cloud_rows(NestedWorld(10))
    roots = Counter(root for *_, root, _parent in rows[tables.resource_providers])
    assert set(roots.values()) == {7}
    assert len(roots) == 10


def test_each_host_of_a_shared_benchmark_cloud_uses_a_disk_pool():
    size = 2 * GROUP_SIZE + 1
    world = SharedWorld(size)
    rows = build_cloud_rows(world)
    pools = {row[0] for row in rows[tables.inventories] if row[1] == class_id("DISK_GB")}
    members = rows[tables.resource_provider_aggregates]
    reached = {aggregate for provider, aggregate in members if provider in pools}
    hosts = {provider for provider, aggregate in members if aggregate in reached} - pools
    assert len(hosts) == size
    assert len(pools) == 4
    assert max(reached) == len(world.aggregates)


def get_allocation_candidates(app, query):
    return app.get(f"/placement{query.paths[0]}", headers=LATEST_HEADERS)


@pytest.mark.all_databases
def test_candidates_of_a_flat_cloud_are_its_hosts_with_free_capacity(app, database):
    world = FlatWorld(60)
    load(database, world)
    rows = build_cloud_rows(world)
    used = sum_used_amounts(rows)
    requested = {class_id("VCPU"): 4, class_id("MEMORY_MB"): 8192, class_id("DISK_GB"): 50}
    full = {
        provider
        for provider, kind, total, reserved, *_, ratio in rows[tables.inventories]
        if used[provider, kind] + requested[kind] > (total - reserved) * ratio
    }
    counts = {
        query.name: len(get_allocation_candidates(app, query).json["allocation_requests"])
        for query in queries.flat(world)
    }
    assert 0 < len(full) < world.size
    assert counts["no limit"] == counts["limit=1000"] == world.size - len(full)
    assert counts["limit=10"] == 10
    assert 0 < counts["2 required, 1 forbidden trait"] < counts["no limit"]
    assert 0 < counts["in: two and !in: three aggregates"] < counts["no limit"]
    assert counts["one forced host"] == 1
    assert {name for name, count in counts.items() if not count} == {
        *("no match: amount", "no match: trait"),
        *("no match: two aggregates", "no match: unknown aggregate"),
    }


def test_candidates_of_a_nested_cloud_use_one_numa_node(app, database):
    world = NestedWorld(15)
    load(database, world)
    (unlimited,) = [each for each in queries.nested(world) if each.name == "granular, no limit"]
    response = get_allocation_candidates(app, unlimited).json
    summaries = response["provider_summaries"]
    assert response["allocation_requests"]
    for candidate in response["allocation_requests"]:
        mappings = candidate["mappings"]
        (numa,), (root,) = mappings["_CPU"], mappings[""]
        assert summaries[numa]["parent_provider_uuid"] == root
        for suffix, network in zip(("_NET1", "_NET2"), NETWORKS, strict=True):
            (card,) = mappings[suffix]
            assert summaries[card]["parent_provider_uuid"] == numa
            assert network in summaries[card]["traits"]


def test_candidates_of_a_shared_cloud_use_disk_of_a_pool(app, database):
    world = SharedWorld(30)
    load(database, world)
    response = get_allocation_candidates(app, queries.shared(world)[0]).json
    assert response["allocation_requests"]
    for candidate in response["allocation_requests"]:
        kinds = sorted(
            "".join(sorted(each["resources"])) for each in candidate["allocations"].values()
        )
        assert kinds == ["DISK_GB", "MEMORY_MBVCPU"]


def test_no_host_of_a_benchmark_cloud_has_the_unused_trait():
    world, traits = FlatWorld(200), TraitIdsByName()
    book = Book(traits)
    for _ in world.fill(book):
        pass
    assert UNUSED_TRAIT in world.traits
    assert UNUSED_TRAIT not in traits
