# SPDX-License-Identifier: Apache-2.0
"""Preferred traits and projects on random small clouds, compared with the rule."""

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.exploring import draws
from tests.scheduler.explanations import explain_request, put_aggregate, put_hosts
from tests.scheduler.providers import add_provider, change_provider
from tests.scheduler.test_server_groups import select_hosts
from tests.support.clouds import uuid_of
from tests.support.scheduling import flavor, instance, report, selected_hosts, spec
from tests.support.versions import LATEST_HEADERS

TRAITS = ("CUSTOM_A", "CUSTOM_B", "CUSTOM_C")
FREE_RESOURCES = ("cpu", "disk", "io_ops", "ram")
#: Options. Metadata of aggregates with the same name override them.
TRAIT_OPTION = "trait_preference_weight_multiplier"
TENANT_OPTION = "preferred_tenant_weight_multiplier"
SUBSETS = st.frozensets(st.sampled_from(TRAITS))
METADATA = st.fixed_dictionaries(
    {},
    optional={
        "prefer_tenant_id": st.sampled_from(["p1", "p2", "p2, p1"]),
        "prefer_tenant_id2": st.sampled_from(["p1", "p3"]),
        TRAIT_OPTION: st.sampled_from(["0", "-500", "2000"]),
        TENANT_OPTION: st.sampled_from(["-1", "1500.5"]),
    },
)


@dataclass(frozen=True)
class DrawnHost:
    """A host: places for instances, its traits, and the traits of a nested provider, if any."""

    places: int
    traits: frozenset[str]
    nested: frozenset[str] | None


@dataclass(frozen=True)
class DrawnCloud:
    """Hosts by name, aggregates as metadata and hosts, the request, and both multipliers."""

    hosts: dict[str, DrawnHost]
    aggregates: list[tuple[dict[str, str], frozenset[str]]]
    preferred: frozenset[str]
    avoided: frozenset[str]
    preferred_by_image: frozenset[str]
    multipliers: dict[str, float]

    def metadata(self, host: str) -> list[dict[str, str]]:
        return [metadata for metadata, hosts in self.aggregates if host in hosts]

    def multiplier(self, host: str, option: str) -> Fraction:
        values = [metadata[option] for metadata in self.metadata(host) if option in metadata]
        return min(map(Fraction, values), default=Fraction(self.multipliers[option]))

    def traits_wanted(self, host: str) -> int:
        own = self.hosts[host].traits | (self.hosts[host].nested or frozenset())
        return len(own & (self.preferred | self.preferred_by_image)) - len(own & self.avoided)

    def is_for_project(self, host: str) -> bool:
        projects = [
            project.strip()
            for metadata in self.metadata(host)
            for key, value in metadata.items()
            if key.startswith("prefer_tenant_id")
            for project in value.split(",")
        ]
        return "p1" in projects

    def facts(self, host: str) -> tuple[Any, ...]:
        """Return everything that the preference for a host depends on."""
        options = (self.multiplier(host, TRAIT_OPTION), self.multiplier(host, TENANT_OPTION))
        return self.traits_wanted(host), self.is_for_project(host), *options

    def weigh(self, names: list[str]) -> dict[str, Fraction]:
        """Return the exact preference for each host. A single host is not weighed."""
        if len(names) == 1:
            return dict.fromkeys(names, Fraction(0))
        counts = {name: self.traits_wanted(name) for name in names}
        low, high = min(counts.values()), max(counts.values())
        return {
            name: self.multiplier(name, TRAIT_OPTION)
            * (Fraction(counts[name] - low, high - low) if high > low else 0)
            + self.multiplier(name, TENANT_OPTION) * self.is_for_project(name)
            for name in names
        }

    @property
    def request(self) -> dict[str, Any]:
        extra_specs = {
            f"scheduler:{key}_traits": ", ".join(sorted(traits))
            for key, traits in (("prefer", self.preferred), ("avoid", self.avoided))
            if traits
        }
        properties = {f"trait:{name}": "preferred" for name in self.preferred_by_image}
        return {"flavor": flavor(extra_specs=extra_specs), "image": {"properties": properties}}


@st.composite
def clouds(draw: Any) -> DrawnCloud:
    host = st.builds(DrawnHost, st.integers(1, 3), SUBSETS, st.none() | SUBSETS)
    names = [f"cn{number}" for number in range(1, draw(st.integers(2, 5)) + 1)]
    members = st.frozensets(st.sampled_from(names), min_size=1)
    avoided = draw(SUBSETS)
    return DrawnCloud(
        hosts={name: draw(host) for name in names},
        aggregates=draw(st.lists(st.tuples(METADATA, members), max_size=3)),
        preferred=draw(SUBSETS) - avoided,
        avoided=avoided,
        preferred_by_image=draw(SUBSETS) - avoided,
        multipliers={
            TRAIT_OPTION: draw(st.sampled_from([1000.0, 1.0, -1.0])),
            TENANT_OPTION: draw(st.sampled_from([1000.0, 1.0])),
        },
    )


def make_cloud(make_new_app, cloud: DrawnCloud, *, is_cached: bool, weighs_resources=False):
    options = dict(cloud.multipliers)
    if not weighs_resources:
        options |= {f"{name}_weight_multiplier": 0.0 for name in FREE_RESOURCES}
    app = make_new_app(
        placement__providers_in_memory=is_cached,
        **{f"filter_scheduler__{name}": value for name, value in options.items()},
    )
    for name in TRAITS:
        app.put(f"/placement/traits/{name}", headers=LATEST_HEADERS)
    put_hosts(app, **{name: sorted(host.traits) for name, host in cloud.hosts.items()})
    reports = [report(name, memory_mb=1024 * host.places) for name, host in cloud.hosts.items()]
    app.post_json("/scheduler/v1/compute_nodes", reports)
    for name, host in cloud.hosts.items():
        if host.nested is not None:
            nested = add_provider(app, f"{name} nested", parent=uuid_of(name), VGPU=1)
            change_provider(app, nested, "traits", sorted(host.nested))
    for number, (metadata, hosts) in enumerate(cloud.aggregates, 1):
        put_aggregate(app, number, metadata, *hosts)
    return app


@pytest.mark.slow
@settings(max_examples=draws(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cloud=clouds(), is_cached=st.booleans(), weighs_resources=st.booleans())
def test_hosts_are_in_the_order_of_the_rule(make_new_app, cloud, is_cached, weighs_resources):
    app = make_cloud(make_new_app, cloud, is_cached=is_cached, weighs_resources=weighs_resources)
    answer = explain_request(app, spec(**cloud.request))
    preference = cloud.weigh(answer.hosts)
    plain = explain_request(app, spec(project_id="p9")).hosts
    assert sorted(answer.hosts) == sorted(plain) == sorted(cloud.hosts)
    # Fractions are summed exactly here, and the weights of free resources are small.
    tolerance = 10 if weighs_resources else 1e-6
    for host in answer.answer["hosts"]:
        assert host["weight"] == pytest.approx(float(preference[host["host"]]), abs=tolerance)
    for number, host in enumerate(answer.hosts):
        for later in answer.hosts[number + 1 :]:
            assert preference[host] >= preference[later] - Fraction(tolerance)
            if cloud.facts(host) == cloud.facts(later):
                assert plain.index(host) < plain.index(later)
    assert selected_hosts(answer.answer)[0] == answer.hosts[0]


@pytest.mark.slow
@settings(max_examples=draws(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cloud=clouds(), is_cached=st.booleans(), number=st.integers(1, 6))
def test_each_instance_gets_the_best_remaining_host(make_new_app, cloud, is_cached, number):
    app = make_cloud(make_new_app, cloud, is_cached=is_cached)
    places = Counter({name: host.places for name, host in cloud.hosts.items()})
    uuids = [instance(index) for index in range(1, min(number, places.total()) + 1)]
    for host in selected_hosts(select_hosts(app, *uuids, **cloud.request)):
        names = sorted(+places)
        preference = cloud.weigh(names)
        assert preference[host] >= max(preference.values()) - Fraction(1e-6)
        equal = [name for name in names if cloud.facts(name) == cloud.facts(host)]
        assert host == equal[0]
        places[host] -= 1
