# SPDX-License-Identifier: Apache-2.0
"""Preferences in extra specs, image properties and hints.

Members of a server group by failure domain.
"""

import pytest

from placement_sched.errors import Invalid
from placement_sched.explain.phrases import describe_rejection
from placement_sched.model.flavor import Flavor
from placement_sched.model.image import Image
from placement_sched.model.preferences import (
    Spread,
    SpreadRequest,
    find_spread_request,
    find_trait_preferences,
)

PREFER_TRAITS_KEY, AVOID_TRAITS_KEY = "scheduler:prefer_traits", "scheduler:avoid_traits"
FLAVOR_PATH = "$.request_spec.flavor.extra_specs['scheduler:{}']"
HINT_PATH = "$.request_spec.scheduler_hints.{}"


def read_trait_preferences(extra_specs, **properties):
    image = Image.from_document({"properties": properties})
    return find_trait_preferences(Flavor(extra_specs=extra_specs), image)


def test_preferred_traits_are_read_from_flavor_and_image():
    expected = read_trait_preferences(
        {PREFER_TRAITS_KEY: "CUSTOM_A, CUSTOM_B,", AVOID_TRAITS_KEY: "CUSTOM_C"},
        **{"trait:CUSTOM_D": "preferred"},
    )
    assert [*expected.preferred] == ["CUSTOM_A", "CUSTOM_B", "CUSTOM_D"]
    assert expected.avoided == {"CUSTOM_C": FLAVOR_PATH.format("avoid_traits")}
    assert expected.preferred["CUSTOM_D"] == "$.request_spec.image.properties['trait:CUSTOM_D']"
    assert expected.score({"CUSTOM_A", "CUSTOM_C", "CUSTOM_D", "CUSTOM_X"}) == 1
    assert expected.names == {"CUSTOM_A", "CUSTOM_B", "CUSTOM_C", "CUSTOM_D"}


@pytest.mark.parametrize("value", ["required", "forbidden", "PREFERRED", 1])
def test_image_trait_is_a_preference_only_with_the_value_preferred(value):
    assert (
        read_trait_preferences({"trait:CUSTOM_A": "preferred"}, **{"trait:CUSTOM_A": value}) is None
    )


@pytest.mark.parametrize(
    ("extra_specs", "properties", "path", "message"),
    [
        (
            {PREFER_TRAITS_KEY: "CUSTOM_A,low"},
            {},
            FLAVOR_PATH.format("prefer_traits"),
            "'low' is not the name of a trait: use upper case letters, digits and _",
        ),
        (
            {PREFER_TRAITS_KEY: "CUSTOM_A", AVOID_TRAITS_KEY: "CUSTOM_A"},
            {},
            FLAVOR_PATH.format("avoid_traits"),
            (
                "trait CUSTOM_A is both avoided, and preferred at "
                f"{FLAVOR_PATH.format('prefer_traits')}"
            ),
        ),
        (
            {},
            {"trait:x": "preferred"},
            "$.request_spec.image.properties['trait:x']",
            "'x' is not the name of a trait: use upper case letters, digits and _",
        ),
    ],
)
def test_invalid_trait_preference_is_an_error_with_its_path(extra_specs, properties, path, message):
    with pytest.raises(Invalid) as error:
        read_trait_preferences(extra_specs, **properties)
    assert error.value.detail == f"{message} (at {path})"


def test_error_for_an_unknown_preferred_trait_has_the_nearest_name():
    wanted = read_trait_preferences({PREFER_TRAITS_KEY: "CUSTOM_SDD"})
    wanted.check({"CUSTOM_SDD"})
    with pytest.raises(Invalid) as error:
        wanted.check({"CUSTOM_SSD", "HW_CPU_X86_AVX2"})
    assert error.value.detail == (
        "No such trait: CUSTOM_SDD. Did you mean 'CUSTOM_SSD'? "
        f"(at {FLAVOR_PATH.format('prefer_traits')})"
    )


@pytest.mark.parametrize(
    ("extra_specs", "hints", "expected"),
    [
        ({}, {}, None),
        ({"max_skew": "1"}, {}, None),
        ({"spread_by": "rack"}, {}, ("rack", 1, False)),
        ({"spread_by": " rack ", "max_skew": "2"}, {}, ("rack", 2, True)),
        ({"spread_by": "rack", "spread_mode": "hard"}, {}, ("rack", 1, True)),
        ({"spread_by": "rack", "max_skew": "2", "spread_mode": "soft"}, {}, ("rack", 2, False)),
        ({"spread_by": "rack"}, {"max_skew": ["3"]}, ("rack", 3, True)),
        ({"spread_by": "rack", "max_skew": "1"}, {"spread_by": ["power"]}, ("power", 1, True)),
        ({"spread_by": "rack", "max_skew": "1"}, {"spread_mode": ["soft"]}, ("rack", 1, False)),
        ({}, {"spread_by": ["zone"], "max_skew": []}, ("zone", 1, False)),
    ],
)
def test_spread_hints_override_extra_specs(extra_specs, hints, expected):
    request = find_spread_request(
        {f"scheduler:{key}": text for key, text in extra_specs.items()}, hints
    )
    assert (request and (request.key, request.max_skew, request.is_hard)) == expected


def test_spread_request_has_the_path_of_its_key():
    path = FLAVOR_PATH.format("spread_by")
    request = find_spread_request({"scheduler:spread_by": "rack"}, {})
    assert request == SpreadRequest("rack", 1, is_hard=False, path=path)
    hinted = find_spread_request({"scheduler:spread_by": "rack"}, {"spread_by": ["power"]})
    assert hinted.path == HINT_PATH.format("spread_by")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("spread_by", " ", "' ' is not the name of a metadata key of aggregates"),
        ("max_skew", "0", "'0' is not a whole number that is at least 1"),
        ("max_skew", "-1", "'-1' is not a whole number that is at least 1"),
        ("max_skew", "one", "'one' is not a whole number that is at least 1"),
        ("spread_mode", "hrd", "'hrd' is not a mode. Did you mean 'hard'?"),
        ("spread_mode", "", "'' is not a mode. There are: hard, soft"),
    ],
)
def test_invalid_spread_value_is_an_error_with_its_path(name, value, message):
    for specs, hints, path in (
        ({f"scheduler:{name}": value}, {}, FLAVOR_PATH.format(name)),
        ({}, {name: [value]}, HINT_PATH.format(name)),
    ):
        with pytest.raises(Invalid) as error:
            find_spread_request({"scheduler:spread_by": "rack", **specs}, hints)
        assert error.value.detail == f"{message} (at {path})"


def test_spread_hint_with_several_values_is_an_error():
    with pytest.raises(Invalid) as error:
        find_spread_request({}, {"spread_by": ["rack", "power"]})
    assert error.value.detail == (
        "the hint must be a single value, got 2 (at $.request_spec.scheduler_hints.spread_by)"
    )


FAILURE_DOMAINS_BY_HOST = {"a": ("r1",), "b": ("r2",), "c": ("r1", "r3"), "e": ("r9",)}


def build_spread(max_skew=1, **members):
    request = SpreadRequest("rack", max_skew, is_hard=True, path="$")
    spread = Spread(
        request, FAILURE_DOMAINS_BY_HOST, frozenset({"r1", "r2", "r3"}), current_hosts={"vm": "a"}
    )
    return spread.with_members(members)


def find_spread_rejection(spread, host, instance="new"):
    rejection = spread.find_rejection(host, instance, spread.find_emptiest_domain())
    return rejection and describe_rejection(rejection)


def test_server_group_members_are_counted_by_failure_domain():
    spread = build_spread(a=1, b=1, c=2, d=5)
    assert spread.members == {"r1": 3, "r2": 1, "r3": 2}
    assert [spread.count_members(host) for host in "abcd"] == [3, 1, 3, None]
    assert spread.find_emptiest_domain() == (1, "r2")
    assert spread.with_member_on("c").with_member_on("d").members == {"r1": 4, "r2": 1, "r3": 3}


@pytest.mark.parametrize(
    ("members", "max_skew", "host", "expected"),
    [
        ({"a": 3, "b": 1, "c": 0}, 1, "b", "1 member, the emptiest (r3) has 0: skew 2"),
        ({"a": 3, "b": 1, "c": 1}, 1, "a", "4 members, the emptiest (r2) has 1: skew 4"),
        ({"a": 3, "b": 1, "c": 1}, 4, "a", None),
        ({"a": 3, "b": 1, "c": 1}, 1, "b", None),
        ({}, 1, "a", None),
        # The smallest number of all domains of the host and of all eligible domains counts.
        ({"e": 1}, 1, "e", "1 member, the emptiest (r1) has 0: skew 2"),
        ({"a": 1, "b": 1, "c": 1}, 1, "e", None),
    ],
)
def test_host_is_rejected_if_skew_of_members_exceeds_max_skew(members, max_skew, host, expected):
    domain = {"a": "r1", "b": "r2", "e": "r9"}[host]
    if expected is not None:
        expected = f"Domain rack={domain} has {expected} after placement exceeds max_skew 1"
    assert find_spread_rejection(build_spread(max_skew, **members), host) == expected


def test_host_is_rejected_by_its_failure_domain_with_most_members():
    assert "Domain rack=r1 has 2 members" in str(find_spread_rejection(build_spread(a=2), "c"))


def test_host_without_a_failure_domain_is_rejected():
    expected = "no aggregate of the host has metadata 'rack', so it is in no domain"
    assert find_spread_rejection(build_spread(), "d") == expected


def test_moving_instance_may_stay_on_its_host_despite_the_skew():
    spread = build_spread(a=3)
    assert find_spread_rejection(spread, "a") is not None
    assert find_spread_rejection(spread, "a", "vm") is None
