# SPDX-License-Identifier: Apache-2.0
"""Parsing of the parameters resources, required and member_of by microversion."""

import pytest

from placement_sched.api.placement.microversions import NEWEST
from placement_sched.api.placement.query_params import (
    parse_member_of,
    parse_resources,
    parse_traits,
)
from placement_sched.api.versions import Version
from placement_sched.errors import Invalid
from placement_sched.model.candidates_query import AggregateTerms, TraitTerms
from placement_sched.model.provider import MAX_INT

UUID_A = "aaaaaaaa-0000-4000-8000-000000000001"
UUID_B = "bbbbbbbb-0000-4000-8000-000000000002"


def build_name_set(*names):
    return frozenset(names)


def test_resources_parameter_is_parsed():
    for text, amounts in [
        ("VCPU:1", {"VCPU": 1}),
        ("VCPU:1,MEMORY_MB:512", {"VCPU": 1, "MEMORY_MB": 512}),
        ("VCPU:1,VCPU:2", {"VCPU": 2}),
        ("VCPU:+1", {"VCPU": 1}),
        ("VCPU: 1 ", {"VCPU": 1}),
        (f"VCPU:{MAX_INT}", {"VCPU": MAX_INT}),
        ("VCPU:" + "9" * 300, {"VCPU": MAX_INT + 1}),
    ]:
        assert parse_resources(text) == amounts, text


def test_invalid_resources_parameter_is_rejected():
    for text in [
        "",
        "VCPU",
        "VCPU:",
        "VCPU:x",
        "VCPU:1.5",
        "VCPU:0",
        "VCPU:-1",
        "VCPU:1,",
        "VCPU:1:2",
        "VCPU:0x1",
        "VCPU:1_0",
        "VCPU:\N{ARABIC-INDIC DIGIT ONE}",
        ",",
        "VCPU:" + "9" * 5000,
    ]:
        with pytest.raises(Invalid):
            parse_resources(text)


def test_required_parameter_is_parsed_by_version():
    for version, values, terms in [
        ((1, 39), [], TraitTerms()),
        ((1, 18), ["A"], TraitTerms((build_name_set("A"),))),
        ((1, 18), ["A,B"], TraitTerms((build_name_set("A"), build_name_set("B")))),
        ((1, 18), ["A,A"], TraitTerms((build_name_set("A"),))),
        ((1, 18), [" A , B "], TraitTerms((build_name_set("A"), build_name_set("B")))),
        ((1, 22), ["A,!B"], TraitTerms((build_name_set("A"),), build_name_set("B"))),
        ((1, 22), ["A,!!B"], TraitTerms((build_name_set("A"),), build_name_set("B"))),
        ((1, 38), ["A", "B"], TraitTerms((build_name_set("B"),))),
        ((1, 39), ["A", "B"], TraitTerms((build_name_set("A"), build_name_set("B")))),
        ((1, 39), ["in:A,B", "!C"], TraitTerms((build_name_set("A", "B"),), build_name_set("C"))),
        ((1, 39), ["in:A"], TraitTerms((build_name_set("A"),))),
    ]:
        assert parse_traits(values, Version(*version)) == terms, (version, values, terms)


def test_invalid_required_parameter_is_rejected_with_its_name():
    for version, values in [
        ((1, 21), ["!A"]),
        ((1, 38), ["in:A"]),
        ((1, 39), [""]),
        ((1, 39), ["A,"]),
        ((1, 39), ["!"]),
        ((1, 39), ["!!"]),
        ((1, 39), ["in:"]),
        ((1, 39), ["in:A,!B"]),
        ((1, 39), ["A", ""]),
    ]:
        with pytest.raises(Invalid, match="'required_X'"):
            parse_traits(values, Version(*version), "required_X")


def test_member_of_parameter_is_parsed_by_version():
    for version, values, terms in [
        ((1, 39), [], AggregateTerms()),
        ((1, 3), [UUID_A], AggregateTerms((build_name_set(UUID_A),))),
        ((1, 3), [f"in:{UUID_A},{UUID_B}"], AggregateTerms((build_name_set(UUID_A, UUID_B),))),
        ((1, 3), [UUID_A.upper()], AggregateTerms((build_name_set(UUID_A),))),
        ((1, 3), [UUID_A.replace("-", "")], AggregateTerms((build_name_set(UUID_A),))),
        (
            (1, 24),
            [UUID_A, UUID_B],
            AggregateTerms((build_name_set(UUID_A), build_name_set(UUID_B))),
        ),
        ((1, 32), [f"!{UUID_A}"], AggregateTerms((), build_name_set(UUID_A))),
        ((1, 32), [f"!in:{UUID_A},{UUID_B}"], AggregateTerms((), build_name_set(UUID_A, UUID_B))),
        (
            (1, 32),
            [UUID_A, f"!{UUID_B}", f"!{UUID_A}"],
            AggregateTerms((build_name_set(UUID_A),), build_name_set(UUID_A, UUID_B)),
        ),
    ]:
        assert parse_member_of(values, Version(*version)) == terms, (version, values, terms)


def test_invalid_member_of_parameter_is_rejected_with_its_name():
    for version, values in [
        ((1, 23), [UUID_A, UUID_B]),
        ((1, 31), [f"!{UUID_A}"]),
        ((1, 31), [f"!in:{UUID_A}"]),
        ((1, 39), [""]),
        ((1, 39), ["!"]),
        ((1, 39), ["in:"]),
        ((1, 39), ["rack"]),
        ((1, 39), [f"{UUID_A},{UUID_B}"]),
        ((1, 39), [f"!{UUID_A},{UUID_B}"]),
        ((1, 39), [f"in:{UUID_A},!{UUID_B}"]),
        ((1, 39), [f"in:!{UUID_A}"]),
        ((1, 39), [f"!!{UUID_A}"]),
        ((1, 39), ["0xaaaaaa-0000-4000-8000-000000000001"]),
    ]:
        with pytest.raises(Invalid, match="member_of_X"):
            parse_member_of(values, Version(*version), "member_of_X")


def test_parsed_query_lists_all_its_traits_and_aggregates():
    terms = parse_traits(["in:A,B", "C,!D"], NEWEST)
    assert terms.names == {"A", "B", "C", "D"}
    assert parse_member_of([UUID_A, f"!{UUID_B}"], NEWEST).uuids == {UUID_A, UUID_B}
