# SPDX-License-Identifier: Apache-2.0
"""Random clouds and random candidates queries."""

from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from placement_sched.model.candidates_query import (
    AggregateTerms,
    CandidatesQuery,
    RequestGroup,
    TraitTerms,
)
from placement_sched.model.provider import MAX_INT, Inventory
from tests.candidates.reference import SHARING_TRAIT
from tests.exploring import scale_example_count
from tests.support.clouds import Cloud, Host, InventoryUsage, uuid_of


def build_property_test_settings(number: int) -> settings:
    """Return the settings of a property test with fixtures."""
    checks = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    return settings(
        max_examples=scale_example_count(number), deadline=None, suppress_health_check=checks
    )


RESOURCE_CLASSES = ("VCPU", "MEMORY_MB", "DISK_GB")
TRAIT_NAMES = ("HW_CPU_X86_AVX", "HW_CPU_X86_AVX2", "STORAGE_DISK_SSD", "CUSTOM_GOLD")
AGGREGATE_NAMES = ("rack-1", "rack-2", "rack-3")


@st.composite
def random_inventories_with_usage(draw: st.DrawFn, name: str) -> InventoryUsage:
    total = draw(st.integers(1, 16))
    inventory = Inventory(
        resource_class=name,
        total=total,
        reserved=draw(st.integers(0, total)),
        min_unit=draw(st.integers(1, 3)),
        max_unit=draw(st.sampled_from([2, 4, 16, MAX_INT])),
        step_size=draw(st.sampled_from([1, 1, 1, 2, 3])),
        allocation_ratio=draw(st.sampled_from([1.0, 1.5, 4.0, 0.5])),
    )
    return InventoryUsage(inventory, draw(st.integers(0, inventory.capacity)))


@st.composite
def random_hosts(draw: st.DrawFn, number: int) -> Host:
    names = draw(st.sets(st.sampled_from(RESOURCE_CLASSES), min_size=1))
    return Host(
        name=f"host-{number}",
        inventories={name: draw(random_inventories_with_usage(name)) for name in sorted(names)},
        traits=frozenset(draw(st.sets(st.sampled_from(TRAIT_NAMES)))),
        aggregates=frozenset(draw(st.sets(st.sampled_from(AGGREGATE_NAMES)))),
    )


@st.composite
def random_clouds(draw: st.DrawFn, most: int = 6) -> Cloud:
    return Cloud(tuple(draw(random_hosts(number)) for number in range(draw(st.integers(0, most)))))


_random_trait_sets = st.sets(st.sampled_from(TRAIT_NAMES), min_size=1, max_size=2).map(frozenset)
_random_aggregate_sets = st.sets(
    st.sampled_from([uuid_of(name) for name in (*AGGREGATE_NAMES, "rack-empty")]), min_size=1
).map(frozenset)


@st.composite
def random_groups(draw: st.DrawFn) -> RequestGroup:
    names = draw(st.sets(st.sampled_from(RESOURCE_CLASSES), min_size=1))
    return RequestGroup(
        resources=tuple((name, draw(st.integers(1, 6))) for name in sorted(names)),
        traits=TraitTerms(
            required=tuple(draw(st.lists(_random_trait_sets, max_size=2, unique=True))),
            forbidden=frozenset(draw(st.sets(st.sampled_from(TRAIT_NAMES), max_size=1))),
        ),
        aggregates=AggregateTerms(
            member_of=tuple(draw(st.lists(_random_aggregate_sets, max_size=2, unique=True))),
            forbidden=draw(st.one_of(st.just(frozenset()), _random_aggregate_sets)),
        ),
        in_tree=draw(st.sampled_from([None, None, None, uuid_of("host-0"), uuid_of("no-host")])),
    )


CHILD_RESOURCE_CLASSES = ("VCPU", "DISK_GB", "SRIOV_NET_VF")
ROOT_TRAITS = ("CUSTOM_GOLD", "HW_CPU_X86_AVX")


def _draw_default_or_choice(values: Sequence[Any], default: Any) -> st.SearchStrategy[Any]:
    """Return the usual value in five of six draws, so that most queries have candidates."""
    return _draw_default_or_random_value(st.sampled_from(values), default)


def _draw_default_or_random_value(
    values: st.SearchStrategy[Any], default: Any
) -> st.SearchStrategy[Any]:
    return st.integers(0, 5).flatmap(lambda lot: values if lot == 5 else st.just(default))


@st.composite
def random_ample_inventories(draw: st.DrawFn, name: str) -> InventoryUsage:
    """Return an inventory that has enough capacity for most queries."""
    inventory = Inventory(
        resource_class=name,
        total=draw(st.integers(2, 8)),
        max_unit=draw(_draw_default_or_choice([3, 2], MAX_INT)),
        min_unit=draw(_draw_default_or_choice([2], 1)),
        step_size=draw(_draw_default_or_choice([2], 1)),
    )
    return InventoryUsage(
        inventory, draw(_draw_default_or_choice([inventory.total // 2, inventory.total], 0))
    )


@st.composite
def random_tree_clouds(draw: st.DrawFn, most: int = 8, *, sharing: bool = True) -> Cloud:
    """Return a cloud of trees of any depth. Any provider may be a sharing provider."""
    providers: list[Host] = []
    for number in range(draw(st.integers(3, most))):
        parent = draw(st.sampled_from([None, *(host.name for host in providers)]))
        names = draw(st.sets(st.sampled_from(CHILD_RESOURCE_CLASSES), min_size=number % 2))
        traits = draw(st.sets(st.sampled_from(TRAIT_NAMES), max_size=3))
        if sharing and draw(st.sampled_from([False, False, False, True])):
            traits.add(SHARING_TRAIT)
        providers.append(
            Host(
                name=f"host-{number}",
                inventories={name: draw(random_ample_inventories(name)) for name in sorted(names)},
                traits=frozenset(traits),
                aggregates=frozenset(draw(st.sets(st.sampled_from(AGGREGATE_NAMES), max_size=2))),
                parent=parent,
            )
        )
    return Cloud(tuple(providers))


@st.composite
def random_granular_groups(draw: st.DrawFn, suffix: str, least: int = 1) -> RequestGroup:
    names = draw(st.sets(st.sampled_from(CHILD_RESOURCE_CLASSES), min_size=least, max_size=2))
    return RequestGroup(
        suffix=suffix,
        resources=tuple((name, draw(_draw_default_or_choice([2, 3], 1))) for name in sorted(names)),
        traits=TraitTerms(
            draw(
                _draw_default_or_random_value(
                    st.lists(_random_trait_sets, min_size=1, max_size=2, unique=True).map(tuple), ()
                )
            ),
            frozenset(
                draw(
                    _draw_default_or_random_value(
                        st.sampled_from(TRAIT_NAMES).map(lambda trait: {trait}), ()
                    )
                )
            ),
        ),
        aggregates=AggregateTerms(
            draw(
                _draw_default_or_random_value(
                    st.lists(_random_aggregate_sets, min_size=1, max_size=2, unique=True).map(
                        tuple
                    ),
                    (),
                )
            ),
            draw(_draw_default_or_random_value(_random_aggregate_sets, frozenset())),
        ),
        in_tree=draw(
            _draw_default_or_choice(
                [uuid_of("host-0"), uuid_of("host-2"), uuid_of("no-host")], None
            )
        ),
    )


@st.composite
def random_queries(draw: st.DrawFn) -> CandidatesQuery:
    """Return a query of up to three groups, with random same_subtree and group_policy."""
    suffixes = draw(st.sampled_from([("",), ("1",), ("", "1"), ("1", "2"), ("", "1", "_NET")]))
    named = [suffix for suffix in suffixes if suffix]
    subtree = st.sets(st.sampled_from(named or [""]), min_size=1).map(
        lambda tied: tuple(sorted(tied))
    )
    subtrees = draw(st.lists(subtree, max_size=2, unique=True)) if named else []
    bare = {suffix for tied in subtrees for suffix in tied}
    groups = [
        draw(random_granular_groups(suffix, 0 if suffix in bare and suffix != suffixes[0] else 1))
        for suffix in suffixes
    ]
    root = st.sets(st.sampled_from(ROOT_TRAITS), min_size=1, max_size=1)
    required = draw(_draw_default_or_random_value(root, set()))
    return CandidatesQuery(
        groups=tuple(groups),
        group_policy=draw(st.sampled_from(["none", "isolate"])),
        root=TraitTerms(
            tuple(frozenset({name}) for name in required),
            frozenset(draw(_draw_default_or_random_value(root, set())) - required),
        ),
        same_subtrees=tuple(subtrees),
    )
