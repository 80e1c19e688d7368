# SPDX-License-Identifier: Apache-2.0
"""2 000 hosts and 20 aggregates with required traits, compared with a naive model."""

from dataclasses import dataclass
from random import Random
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from placement_sched.model.explanation import ExplanationView
from placement_sched.operations import aggregates as aggregates_module
from tests.exploring import Dice, draws
from tests.support.clouds import NOW, Host, add_traits
from tests.support.scheduling import flavor, report, spec

pytestmark = pytest.mark.slow

HOSTS = 2_000
RESERVED = tuple(f"CUSTOM_RESERVED_{letter}" for letter in "ABCDEF")
SWITCH = "scheduler.enable_isolated_aggregate_filtering"


@dataclass(frozen=True)
class Aggregate:
    """An aggregate: its hosts and its metadata."""

    hosts: frozenset[str]
    metadata: dict[str, str]

    @property
    def traits(self) -> set[str]:
        """Return the traits that the aggregate requires."""
        return {key[6:] for key, value in self.metadata.items() if value == "required"}


@dataclass(frozen=True)
class ModelCloud:
    """The hosts with their traits and memory, and the aggregates, as plain values."""

    traits: dict[str, frozenset[str]]
    memory_mb: dict[str, int]
    aggregates: tuple[Aggregate, ...]

    def candidates(self, required: set[str], memory_mb: int, *, is_enabled: bool) -> set[str]:
        """Return the hosts that a request can use. Each host is examined."""
        forbidden = {
            host
            for aggregate in self.aggregates
            if is_enabled and not aggregate.traits <= required
            for host in aggregate.hosts
        }
        return {
            host
            for host, traits in self.traits.items()
            if required <= traits and self.memory_mb[host] >= memory_mb and host not in forbidden
        }


def random_cloud(random: Random) -> ModelCloud:
    names = [f"cn{number:04}" for number in range(HOSTS)]
    traits = {name: frozenset(random.sample(RESERVED, random.randrange(4))) for name in names}
    memory = {name: random.choice([16384, 65536, 262144]) for name in names}
    aggregates = []
    for _ in range(20):
        tags = {
            f"trait:{name}": random.choice(["required", "required", "forbidden", "Required"])
            for name in random.sample(RESERVED, random.randrange(1, 3))
        }
        hosts = frozenset(random.sample(names, random.randrange(20, 200)))
        aggregates.append(Aggregate(hosts, {**tags, "rack": "7"}))
    return ModelCloud(traits, memory, tuple(aggregates))


@pytest.fixture
def model(app) -> ModelCloud:
    result = random_cloud(Dice.numbered(20))
    app.post_json(
        "/scheduler/v1/compute_nodes",
        [report(name, memory_mb=memory) for name, memory in result.memory_mb.items()],
    )
    database = app.app.services.database
    add_traits(database, [Host(name, {}, traits) for name, traits in result.traits.items()])

    def add_aggregates(connection):
        for number, aggregate in enumerate(result.aggregates):
            created = aggregates_module.create(
                connection, str(uuid4()), f"reserve-{number}", None, NOW
            )
            aggregates_module.set_metadata(connection, created.id, aggregate.metadata, NOW)
            aggregates_module.add_hosts(connection, created.id, aggregate.hosts, NOW)

    database.write(add_aggregates)
    return result


_traits = st.sets(st.sampled_from(RESERVED), max_size=3)


@settings(
    max_examples=draws(12),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    by_flavor=_traits,
    by_image=_traits,
    memory_mb=st.sampled_from([1024, 32768, 131072]),
    is_enabled=st.booleans(),
)
def test_candidates_equal_those_of_the_model(
    app, model, by_flavor, by_image, memory_mb, is_enabled
):
    request = spec(
        flavor=flavor(
            memory_mb=memory_mb, extra_specs={f"trait:{name}": "required" for name in by_flavor}
        ),
        image={"properties": {f"trait:{name}": "required" for name in by_image}},
    )
    answer = app.app.services.scheduler.explain(
        request,
        overrides={SWITCH: is_enabled, "scheduler.max_placement_results": HOSTS},
        view=ExplanationView(max_rejected=1),
    ).answer
    result = {host["host"] for host in answer["hosts"]}
    assert result == model.candidates(by_flavor | by_image, memory_mb, is_enabled=is_enabled)


@pytest.mark.all_databases
def test_query_has_every_forbidden_aggregate_once(app, model):
    answer = app.app.services.scheduler.explain(
        spec(), overrides={SWITCH: True}, view=ExplanationView()
    ).answer
    query = answer["funnel"]["allocation_candidates"]["query"]
    reserved = sum(1 for aggregate in model.aggregates if aggregate.traits)
    assert query.count("member_of=%21in%3A") == 1
    assert query.count("%2C", query.index("member_of"), query.index("&resources")) == reserved - 1
