# SPDX-License-Identifier: Apache-2.0
"""The checks of responses in benchmarks."""

from copy import deepcopy

import orjson
import pytest
from answers import ExpectedCandidates, read_answer, require_equal
from harness import WrongAnswer
from services import PEER_LATEST

from tests.support import versions

pytestmark = pytest.mark.slow


def build_summary(root: str, parent: str | None = None) -> dict:
    return {
        "resources": {"VCPU": {"capacity": 8, "used": 1}},
        "traits": ["HW_CPU_X86_AVX", "HW_CPU_X86_SSE"],
        "root_provider_uuid": root,
        "parent_provider_uuid": parent,
    }


def build_candidate(provider: str) -> dict:
    return {
        "allocations": {provider: {"resources": {"VCPU": 1}}},
        "mappings": {"": [provider], "_A": [provider, "other"]},
    }


WHOLE = {
    "allocation_requests": [
        build_candidate("numa1"),
        build_candidate("numa2"),
        build_candidate("host2"),
    ],
    "provider_summaries": {
        "host1": build_summary("host1"),
        "numa1": build_summary("host1", "host1"),
        "numa2": build_summary("host1", "host1"),
        "host2": build_summary("host2"),
    },
}


def build_answer(*providers: str) -> dict:
    """Return a correct response with these candidates."""
    summaries = WHOLE["provider_summaries"]
    roots = {summaries[uuid]["root_provider_uuid"] for uuid in providers}
    return deepcopy(
        {
            "allocation_requests": [build_candidate(uuid) for uuid in providers],
            "provider_summaries": {
                uuid: summary
                for uuid, summary in summaries.items()
                if summary["root_provider_uuid"] in roots
            },
        }
    )


def check_answer(answer: dict, limit: int | None) -> int:
    expected = ExpectedCandidates("a query", orjson.dumps(WHOLE))
    return expected.check("ours", orjson.dumps(answer), limit)


@pytest.mark.parametrize(
    ("providers", "limit"),
    [
        (("numa2",), 1),
        (("host2", "numa1"), 2),
        (("numa1", "numa2", "host2"), 3),
        (("numa1", "numa2", "host2"), 1000),
        (("numa1", "numa2", "host2"), None),
    ],
)
def test_subset_of_the_right_size_is_valid(providers, limit):
    assert check_answer(build_answer(*providers), limit) == len(providers)


def test_order_of_traits_and_mappings_does_not_matter():
    answer = build_answer("numa1")
    answer["provider_summaries"]["host1"]["traits"].reverse()
    answer["allocation_requests"][0]["mappings"]["_A"].reverse()
    assert check_answer(answer, 1) == 1


def remove_candidate(answer):
    del answer["allocation_requests"][1]


def repeat_candidate(answer):
    answer["allocation_requests"][1] = answer["allocation_requests"][0]


def change_amount(answer):
    answer["allocation_requests"][0]["allocations"]["numa1"]["resources"]["VCPU"] = 2


def change_mapping(answer):
    answer["allocation_requests"][0]["mappings"]["_A"] = ["numa1"]


def remove_parent_summary(answer):
    del answer["provider_summaries"]["host1"]


def remove_used_summary(answer):
    del answer["provider_summaries"]["numa1"]


def add_summary(answer):
    answer["provider_summaries"]["host2"] = build_summary("host2")


def change_usage(answer):
    answer["provider_summaries"]["numa1"]["resources"]["VCPU"]["used"] = 2


def remove_trait(answer):
    answer["provider_summaries"]["numa1"]["traits"].pop()


@pytest.mark.parametrize(
    "spoil",
    [
        remove_candidate,
        repeat_candidate,
        change_amount,
        change_mapping,
        remove_parent_summary,
        remove_used_summary,
        add_summary,
        change_usage,
        remove_trait,
    ],
)
def test_different_answer_is_invalid(spoil):
    answer = build_answer("numa1", "numa2")
    spoil(answer)
    with pytest.raises(WrongAnswer, match="ours, a query"):
        check_answer(answer, 2)


def test_benchmarks_use_the_version_of_the_comparisons():
    assert PEER_LATEST == versions.PEER_LATEST


PEER_ANSWER = read_answer(b'{"links": [{"href": "/traits"}], "providers": ["a", "b"]}')


def test_reordered_answers_are_equal():
    ours = b'{"providers": ["b", "a"], "links": [{"href": "/placement/traits"}]}'
    require_equal("ours, /traits", read_answer(ours), PEER_ANSWER)


def test_answer_that_differs_from_the_peer_is_invalid():
    with pytest.raises(WrongAnswer, match="ours, /traits:"):
        require_equal("ours, /traits", read_answer(b'{"providers": ["a"]}'), PEER_ANSWER)
