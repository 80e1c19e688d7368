# SPDX-License-Identifier: Apache-2.0
"""Weigher by preferred and avoided traits."""

import pytest

from placement_sched.scheduler.host_state import set_traits
from placement_sched.scheduler.weights.trait_preference import TraitPreferenceWeigher
from tests.conftest import make_settings
from tests.scheduler.explanations import explain_request, put_aggregate, put_hosts
from tests.scheduler.providers import add_provider
from tests.scheduler.weights.weighing import find_raw_weights, run_weigher
from tests.support.clouds import Host, add_traits, uuid_of
from tests.support.explanations import build_weight
from tests.support.scheduling import make_flavor, make_spec
from tests.support.statements import record_statements
from tests.support.states import build_host_state, build_spec

WEIGHER_NAME = "TraitPreferenceWeigher"
PREFERRED_TRAITS_KEY, AVOIDED_TRAITS_KEY = "scheduler:prefer_traits", "scheduler:avoid_traits"
TRAIT_PREFERENCES = {PREFERRED_TRAITS_KEY: "CUSTOM_A,CUSTOM_B", AVOIDED_TRAITS_KEY: "CUSTOM_C"}
EXPLAIN_PATH = "/scheduler/v1/explain"


def build_hosts(**traits):
    hosts = [build_host_state(name) for name in traits]
    for host in hosts:
        set_traits(host, frozenset(traits[host.host]))
    return hosts


def test_weight_is_the_number_of_preferred_less_the_number_of_avoided_traits():
    hosts = build_hosts(
        none=(), one=["CUSTOM_A"], two=["CUSTOM_A", "CUSTOM_B"], both=["CUSTOM_B", "CUSTOM_C"]
    )
    weights = {"none": 0.0, "one": 1.0, "two": 2.0, "both": 0.0}
    assert find_raw_weights(TraitPreferenceWeigher, hosts, build_spec(TRAIT_PREFERENCES)) == weights
    image = build_spec(properties={"trait:CUSTOM_B": "preferred"})
    assert find_raw_weights(TraitPreferenceWeigher, hosts, image)["both"] == 1.0


def test_trait_preference_weigher_does_not_run_without_a_preference():
    hosts = build_hosts(one=["CUSTOM_A"], none=())
    run = run_weigher(TraitPreferenceWeigher, hosts, build_spec({"trait:CUSTOM_A": "required"}))
    assert (run.reports, run.columns) == ((), ())
    assert TraitPreferenceWeigher().weigh_hosts(hosts, build_spec()) == [0.0, 0.0]


@pytest.fixture(params=[True, False], ids=["cached", "read by SQL"])
def cloud(request, sqlite_url, make_app):
    """Return an application with three equal hosts, with and without the provider cache."""
    settings = make_settings(sqlite_url, placement__providers_in_memory=request.param)
    app = make_app(settings)
    put_hosts(app, cn1=[], cn2=["CUSTOM_A"], cn3=["CUSTOM_A", "CUSTOM_B"], cn4=["CUSTOM_C"])
    return app


def build_flavor_spec(extra_specs, **changes):
    return make_spec(flavor=make_flavor(extra_specs=extra_specs), **changes)


@pytest.mark.slow
def test_hosts_with_preferred_traits_come_first(cloud):
    response = explain_request(cloud, build_flavor_spec(TRAIT_PREFERENCES))
    assert response.hosts == ["cn3", "cn2", "cn1", "cn4"]
    assert {"name": WEIGHER_NAME, "multiplier": 1000.0} in response.result["funnel"]["weighers"]
    weights = [host["weights"][WEIGHER_NAME] for host in response.result["hosts"]]
    assert weights[0] == build_weight(1.0, 2.0, 1000.0)
    assert [weight["raw"] for weight in weights] == [2.0, 1.0, 0.0, -1.0]
    image = make_spec(image={"properties": {"trait:CUSTOM_C": "preferred"}})
    assert explain_request(cloud, image).hosts == ["cn4", "cn1", "cn2", "cn3"]
    option = {"filter_scheduler__trait_preference_weight_multiplier": -1.0}
    assert explain_request(cloud, build_flavor_spec(TRAIT_PREFERENCES), **option).hosts[0] == "cn4"
    put_aggregate(cloud, 1, {"trait_preference_weight_multiplier": "0"}, "cn3")
    assert explain_request(cloud, build_flavor_spec(TRAIT_PREFERENCES)).hosts[0] == "cn2"


@pytest.mark.slow
def test_preferred_trait_of_a_nested_provider_counts(cloud):
    add_provider(cloud, "gpu", parent=uuid_of("cn4"), VGPU=1)
    add_traits(cloud.app.services.database, [Host("gpu", {}, frozenset({"CUSTOM_GPU"}))])
    assert (
        explain_request(cloud, build_flavor_spec({PREFERRED_TRAITS_KEY: "CUSTOM_GPU"})).hosts[0]
        == "cn4"
    )


def test_request_without_preferences_is_not_weighed_by_trait_preference(cloud):
    response = explain_request(cloud, make_spec()).result
    assert WEIGHER_NAME not in {name for host in response["hosts"] for name in host["weights"]}
    assert WEIGHER_NAME not in [weigher["name"] for weigher in response["funnel"]["weighers"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "path"),
    [
        (
            {"flavor": make_flavor(extra_specs={PREFERRED_TRAITS_KEY: "CUSTOM_AA"})},
            "flavor.extra_specs['scheduler:prefer_traits']",
        ),
        (
            {"image": {"properties": {"trait:CUSTOM_AA": "preferred"}}},
            "image.properties['trait:CUSTOM_AA']",
        ),
    ],
    ids=["flavor", "image"],
)
def test_unknown_preferred_trait_is_an_error_with_the_nearest_name(cloud, changes, path):
    body = {"request_spec": make_spec(**changes)}
    for place in (EXPLAIN_PATH, "/scheduler/v1/select_destinations"):
        (error,) = cloud.post_json(place, body, status=400).json["errors"]
        expected = f"No such trait: CUSTOM_AA. Did you mean 'CUSTOM_A'? (at $.request_spec.{path})"
        assert error["detail"] == expected


@pytest.mark.slow
def test_statement_count_of_trait_preferences_does_not_depend_on_hosts(sqlite_app):
    counts = set()
    for numbers in (range(3), range(3, 60)):
        put_hosts(sqlite_app, **{f"h{number}": ["CUSTOM_A"] for number in numbers})
        request = build_flavor_spec({PREFERRED_TRAITS_KEY: "CUSTOM_A"})
        explain_request(sqlite_app, request)  # fills the caches
        with record_statements(sqlite_app.app.services.database) as statements:
            explain_request(sqlite_app, request)
        counts.add(len(statements))
    assert len(counts) == 1
