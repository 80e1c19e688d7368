# SPDX-License-Identifier: Apache-2.0
"""Rendering of allocation requests, by template and by value."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_sched.api.placement.allocation_candidates import render
from placement_sched.api.versions import Version
from placement_sched.model.candidates_query import AllocationRequest, Layout
from tests.support.clouds import uuid_of

ONE = Layout(({"VCPU": 2, "MEMORY_MB": 64},), {"": (0,)})
TWO = Layout(({"VCPU": 2}, {}, {"CUSTOM_A": 1}), {"_A-1": (0, 2), "2": (1,)})

REQUESTS = st.lists(
    st.one_of(
        st.tuples(st.just(ONE), st.tuples(st.uuids().map(str))),
        st.tuples(st.just(TWO), st.tuples(*[st.uuids().map(str)] * 3)),
    ),
    max_size=5,
)


@given(REQUESTS)
def test_newest_format_renders_each_request(drawn):
    requests = [AllocationRequest(layout, uuids, uuids[0]) for layout, uuids in drawn]
    document = orjson.loads(render(requests, Version(1, 39)))
    assert document == [request.as_json() for request in requests]


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (
            Version(1, 10),
            {
                "allocations": [
                    {"resource_provider": {"uuid": uuid_of("a")}, "resources": {"VCPU": 2}},
                    {"resource_provider": {"uuid": uuid_of("c")}, "resources": {"CUSTOM_A": 1}},
                ]
            },
        ),
        (
            Version(1, 33),
            {
                "allocations": {
                    uuid_of("a"): {"resources": {"VCPU": 2}},
                    uuid_of("c"): {"resources": {"CUSTOM_A": 1}},
                }
            },
        ),
    ],
    ids=["a list", "by provider"],
)
def test_older_formats_omit_mappings(version, expected):
    uuids = (uuid_of("a"), uuid_of("b"), uuid_of("c"))
    (request,) = orjson.loads(render([AllocationRequest(TWO, uuids, uuids[0])], version))
    assert request == expected


@pytest.mark.parametrize("version", [Version(1, 10), Version(1, 33), Version(1, 39)])
def test_template_characters_in_names_are_literal(version):
    odd = '50%_%s%%"'
    layout = Layout(({odd: 1},), {"": (0,)})
    (request,) = orjson.loads(
        render([AllocationRequest(layout, (uuid_of("a"),), uuid_of("a"))], version)
    )
    allocations = request["allocations"]
    resources = allocations[0] if isinstance(allocations, list) else allocations[uuid_of("a")]
    assert resources["resources"] == {odd: 1}
