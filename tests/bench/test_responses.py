# SPDX-License-Identifier: Apache-2.0
"""The checks of responses in benchmarks."""

from copy import deepcopy

import orjson
import pytest
from harness import WrongResponse
from responses import ExpectedCandidates, read_response, require_equal
from services import PEER_LATEST

from tests.support import versions

pytestmark = pytest.mark.slow


def build_provider_summary(root: str, parent: str | None = None) -> dict:
    return {
        "resources": {"VCPU": {"capacity": 8, "used": 1}},
        "traits": ["HW_CPU_X86_AVX", "HW_CPU_X86_SSE"],
        "root_provider_uuid": root,
        "parent_provider_uuid": parent,
    }


def build_allocation_request(provider: str) -> dict:
    return {
        "allocations": {provider: {"resources": {"VCPU": 1}}},
        "mappings": {"": [provider], "_A": [provider, "other"]},
    }


CANDIDATES_RESPONSE = {
    "allocation_requests": [build_allocation_request(name) for name in ("numa1", "numa2", "host2")],
    "provider_summaries": {
        "host1": build_provider_summary("host1"),
        "numa1": build_provider_summary("host1", "host1"),
        "numa2": build_provider_summary("host1", "host1"),
        "host2": build_provider_summary("host2"),
    },
}


def build_candidates_response(*providers: str) -> dict:
    """Return a correct response with these candidates."""
    summaries = CANDIDATES_RESPONSE["provider_summaries"]
    roots = {summaries[uuid]["root_provider_uuid"] for uuid in providers}
    return deepcopy(
        {
            "allocation_requests": [build_allocation_request(uuid) for uuid in providers],
            "provider_summaries": {
                uuid: summary
                for uuid, summary in summaries.items()
                if summary["root_provider_uuid"] in roots
            },
        }
    )


def check_candidates_response(response: dict, limit: int | None) -> int:
    expected = ExpectedCandidates("a query", orjson.dumps(CANDIDATES_RESPONSE))
    return expected.check("ours", orjson.dumps(response), limit)


def test_candidates_response_with_any_subset_of_the_limit_is_valid():
    every = ("numa1", "numa2", "host2")
    for providers, limit in (
        *((("numa2",), 1), (("host2", "numa1"), 2)),
        *((every, 3), (every, 1000), (every, None)),
    ):
        assert check_candidates_response(build_candidates_response(*providers), limit) == len(
            providers
        )


def test_candidates_response_in_another_order_is_valid():
    response = build_candidates_response("numa1")
    response["provider_summaries"]["host1"]["traits"].reverse()
    response["allocation_requests"][0]["mappings"]["_A"].reverse()
    assert check_candidates_response(response, 1) == 1


def test_candidates_response_with_a_wrong_or_missing_value_is_invalid():
    for spoil in (
        lambda requests, _: requests.pop(1),
        lambda requests, _: requests.__setitem__(1, requests[0]),
        lambda requests, _: requests[0]["allocations"]["numa1"]["resources"].update(VCPU=2),
        lambda requests, _: requests[0]["mappings"].update(_A=["numa1"]),
        lambda _, summaries: summaries.pop("host1"),
        lambda _, summaries: summaries.pop("numa1"),
        lambda _, summaries: summaries.update(host2=build_provider_summary("host2")),
        lambda _, summaries: summaries["numa1"]["resources"]["VCPU"].update(used=2),
        lambda _, summaries: summaries["numa1"]["traits"].pop(),
    ):
        response = build_candidates_response("numa1", "numa2")
        spoil(response["allocation_requests"], response["provider_summaries"])
        with pytest.raises(WrongResponse, match="ours, a query"):
            check_candidates_response(response, 2)


def test_benchmarks_use_the_placement_version_of_the_tests():
    assert PEER_LATEST == versions.PEER_LATEST


def test_benchmark_responses_may_differ_in_order_and_url_prefix():
    peer = read_response(b'{"links": [{"href": "/traits"}], "providers": ["a", "b"]}')
    ours = b'{"providers": ["b", "a"], "links": [{"href": "/placement/traits"}]}'
    require_equal("ours, /traits", read_response(ours), peer)
    with pytest.raises(WrongResponse, match="ours, /traits:"):
        require_equal("ours, /traits", read_response(b'{"providers": ["a"]}'), peer)
