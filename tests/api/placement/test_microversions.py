# SPDX-License-Identifier: Apache-2.0
"""Every microversion of the Placement API: a request to the version before it, and to it."""

from uuid import uuid4

import pytest

from placement_sched.api.placement.microversions import NEWEST
from tests.api.placement.provider_requests import create_providers
from tests.support.clouds import uuid_of
from tests.support.versions import LATEST_HEADERS

pytestmark = pytest.mark.all_databases

HOST_UUID, NIC1_UUID, NIC2_UUID, BARE_UUID = map(uuid_of, ("host", "nic1", "nic2", "bare"))
AGGREGATE_UUID, ALLOCATIONS_PATH = str(uuid4()), f"/allocations/{uuid4()}"
PROJECT_AND_USER = {"project_id": "shop", "user_id": "bob"}
VF_RESOURCES = {"resources": {"SRIOV_NET_VF": 1}}


def build_claim(**fields):
    return {"allocations": {HOST_UUID: {"resources": {"VCPU": 2}}}, **PROJECT_AND_USER, **fields}


ALLOCATIONS_AS_LIST = {
    **PROJECT_AND_USER,
    "allocations": [{"resource_provider": {"uuid": HOST_UUID}, "resources": {"VCPU": 1}}],
}
STALE_GENERATION_BODY = {"aggregates": [], "resource_provider_generation": 77}
RESHAPER_BODY = {
    "inventories": {
        NIC2_UUID: {
            "inventories": {"SRIOV_NET_VF": {"total": 2}},
            "resource_provider_generation": 1,
        }
    },
    "allocations": {},
}
MOVED_PROVIDER_BODY = {"name": "nic2", "parent_provider_uuid": BARE_UUID}


#: The links of a provider before 1.11.
PROVIDER_LINKS = ["self", "inventories", "usages", "aggregates", "traits"]
#: Parts of the paths below.
PATH_VARIABLES = {name: uuid_of(name) for name in ("host", "nic1", "nic2", "disk", "bare")} | {
    "providers": "/resource_providers",
    "candidates": "/allocation_candidates",
    "aggregate": AGGREGATE_UUID,
    "unknown": uuid4(),
    "vcpu": "resources=VCPU:1",
    "vf": "resources=SRIOV_NET_VF:1",
    "subtree": "resources_C=VCPU:1&resources_N=SRIOV_NET_VF:3&group_policy=none&same_subtree=_C,_N",
    "avx2": "HW_CPU_X86_AVX2",
    "net": "CUSTOM_NET",
}
HOST_RESOURCES_JSON_PATH = f"provider_summaries.{HOST_UUID}.resources.keys"
RESERVED_INVENTORY = {"resource_class": "VCPU", "total": 2, "reserved": 2}


def expect_providers(*names):
    return {"resource_providers.*.name": [*names]}


def expect_candidates(*allocations):
    return {"allocation_requests.*.allocations": [*allocations]}


def expect_candidate_count(number):
    return {"allocation_requests.length": number}


def expect_keys(*names):
    return {"keys": sorted(names)}


#: The minor version, a request, and the response of the version before and of the version: a
#: status, or values by their paths in the document. The body is last.
RESPONSES_BY_MICROVERSION = [
    (1, "GET", "{providers}/{host}/aggregates", 404, {"aggregates": [AGGREGATE_UUID]}),
    (2, "POST", "/resource_classes", 404, 201, {"name": "CUSTOM_MV"}),
    (3, "GET", "{providers}?member_of={aggregate}", 400, expect_providers("host", "disk")),
    (4, "GET", "{providers}?resources=VCPU:8", 400, expect_providers("host")),
    (5, "DELETE", "{providers}/{bare}/inventories", 405, 204),
    (
        *(6, "GET", "{providers}/{nic1}/traits"),
        *(404, expect_keys("resource_provider_generation", "traits")),
    ),
    (7, "PUT", "/resource_classes/CUSTOM_MV", 200, 201, {"name": "CUSTOM_NEW"}),
    (8, "PUT", ALLOCATIONS_PATH, 400, 204, ALLOCATIONS_AS_LIST),
    (9, "GET", "/usages?project_id=shop", 404, {"usages": {"VCPU": 1}}),
    (10, "GET", "{candidates}?{vcpu}", 404, expect_candidates(ALLOCATIONS_AS_LIST["allocations"])),
    (
        *(11, "GET", "{providers}/{host}"),
        *({"links.*.rel": PROVIDER_LINKS}, {"links.*.rel": [*PROVIDER_LINKS, "allocations"]}),
    ),
    (12, "PUT", ALLOCATIONS_PATH, 400, 204, build_claim()),
    (
        *(12, "GET", ALLOCATIONS_PATH),
        *(expect_keys("allocations"), expect_keys("allocations", "project_id", "user_id")),
    ),
    (13, "POST", "/allocations", 404, 204, {ALLOCATIONS_PATH[13:]: build_claim(allocations={})}),
    (
        *(14, "GET", "{providers}/{nic1}", expect_keys("generation", "links", "name", "uuid")),
        {"parent_provider_uuid": HOST_UUID, "root_provider_uuid": HOST_UUID},
    ),
    (16, "GET", "{candidates}?{vf}&limit=1", 400, 200),
    (
        *(17, "GET", "{candidates}?{vf}&required={net}", 400),
        {f"provider_summaries.{NIC1_UUID}.traits": ["CUSTOM_NET"]},
    ),
    (18, "GET", "{providers}?required={net}", 400, expect_providers("nic1")),
    (19, "PUT", "{providers}/{bare}/aggregates", 200, 400, [AGGREGATE_UUID]),
    (19, "PUT", "{providers}/{bare}/aggregates", 400, 409, STALE_GENERATION_BODY),
    (20, "POST", "/resource_providers", 201, {"length": 6}, lambda version: {"name": version}),
    (21, "GET", "{candidates}?{vcpu}&member_of={aggregate}", 400, expect_candidate_count(1)),
    (
        *(22, "GET", "{candidates}?{vf}&required=!{net}"),
        *(400, expect_candidates({NIC2_UUID: VF_RESOURCES})),
    ),
    (
        *(23, "POST", "/resource_providers"),
        *({"errors.0.length": 4}, {"errors.0.length": 5}, {"name": "host"}),
    ),
    (
        *(24, "GET", "{candidates}?{vcpu}&member_of={aggregate}&member_of={unknown}"),
        *(400, expect_candidate_count(0)),
    ),
    (
        *(25, "GET", "{candidates}?resources1=VCPU:1&resources2=MEMORY_MB:64&group_policy=none"),
        *(400, expect_candidates({HOST_UUID: {"resources": {"VCPU": 1, "MEMORY_MB": 64}}})),
    ),
    (26, "POST", "{providers}/{bare}/inventories", 400, 201, RESERVED_INVENTORY),
    (
        *(27, "GET", "{candidates}?{vcpu}"),
        *({HOST_RESOURCES_JSON_PATH: ["VCPU"]}, {HOST_RESOURCES_JSON_PATH: ["MEMORY_MB", "VCPU"]}),
    ),
    (28, "PUT", ALLOCATIONS_PATH, 400, 204, build_claim(consumer_generation=None)),
    (28, "GET", ALLOCATIONS_PATH, {"length": 3}, {"consumer_generation": 1}),
    (
        *(29, "GET", "{candidates}?resources=VCPU:1,SRIOV_NET_VF:1&required={net}"),
        *(
            expect_candidate_count(0),
            {"provider_summaries.keys": sorted([HOST_UUID, NIC1_UUID, NIC2_UUID])},
        ),
    ),
    (30, "POST", "/reshaper", 404, 204, RESHAPER_BODY),
    (31, "GET", "{candidates}?{vcpu}&in_tree={disk}", 400, expect_candidate_count(0)),
    (32, "GET", "{candidates}?{vcpu}&member_of=!{aggregate}", 400, expect_candidate_count(0)),
    (33, "GET", "{candidates}?resources_CPU=VCPU:1", 400, expect_candidate_count(1)),
    (
        *(34, "GET", "{candidates}?resources_NET=SRIOV_NET_VF:3"),
        {"allocation_requests.0.keys": ["allocations"]},
        {"allocation_requests.0.mappings": {"_NET": [NIC1_UUID]}},
    ),
    (
        35,
        "GET",
        "{candidates}?resources=SRIOV_NET_VF:3&root_required={avx2}",
        400,
        expect_candidate_count(1),
    ),
    (
        *(36, "GET", "{candidates}?{subtree}", 400),
        {"allocation_requests.0.mappings": {"_C": [HOST_UUID], "_N": [NIC1_UUID]}},
    ),
    (37, "PUT", "{providers}/{nic2}", 400, {"root_provider_uuid": BARE_UUID}, MOVED_PROVIDER_BODY),
    (
        *(38, "PUT", ALLOCATIONS_PATH),
        *(400, 204, build_claim(consumer_generation=1, consumer_type="INSTANCE")),
    ),
    (
        *(38, "GET", "/usages?project_id=shop", {"usages": {"VCPU": 2}}),
        {"usages": {"INSTANCE": {"VCPU": 2, "consumer_count": 1}}},
    ),
    (
        39,
        "GET",
        "{candidates}?{vcpu}&required=in:{avx2},HW_CPU_X86_SSE",
        400,
        expect_candidate_count(1),
    ),
    (
        *(39, "GET", "{providers}?required={avx2}&required={net}"),
        *(expect_providers("nic1"), expect_providers()),
    ),
]


@pytest.fixture
def cloud_app(app):
    """A host with two network cards and a shared disk, and a bare provider."""
    app.put("/placement/traits/CUSTOM_NET", headers=LATEST_HEADERS, status=201)
    stock = {"VCPU": {"total": 8}, "MEMORY_MB": {"total": 1024}}
    create_providers(
        app,
        ("host", None, stock, ["HW_CPU_X86_AVX2"], [AGGREGATE_UUID]),
        ("nic1", "host", {"SRIOV_NET_VF": {"total": 4}}, ["CUSTOM_NET"], []),
        ("nic2", "host", {"SRIOV_NET_VF": {"total": 2}}, [], []),
        (
            "disk",
            None,
            {"DISK_GB": {"total": 100}},
            ["MISC_SHARES_VIA_AGGREGATE"],
            [AGGREGATE_UUID],
        ),
        ("bare", None, {}, [], []),
    )
    return app


def read_value_at_path(document, path):
    """Return a part of a document: ``*`` is each item, ``keys`` and ``length`` end a path."""
    name, _, rest = path.partition(".")
    if name == "keys":
        return sorted(document)
    if name == "length":
        return len(document)
    if name == "*":
        return [read_value_at_path(item, rest) for item in document]
    value = document[int(name) if name.isdigit() else name]
    return read_value_at_path(value, rest) if rest else value


def check_response_of_microversion(app, minor, method, path, body, expected):
    headers = {"OpenStack-API-Version": f"placement 1.{minor}", "X-Roles": "admin,service"}
    body = body(f"mv{minor}") if callable(body) else body
    url, options = f"/placement{path.format(**PATH_VARIABLES)}", {"headers": headers, "status": "*"}
    if body is None:
        response = app.request(url, method=method, **options)
    else:
        response = getattr(app, f"{method.lower()}_json")(url, body, **options)
    request = (minor, method, path)
    if isinstance(expected, int):
        assert response.status_int == expected, (request, response.text)
        return
    assert {name: read_value_at_path(response.json, name) for name in expected} == expected, request


def test_each_microversion_has_its_documented_change_and_the_version_before_has_not(cloud_app):
    for minor, method, path, before, after, *rest in RESPONSES_BY_MICROVERSION:
        body = rest[0] if rest else None
        check_response_of_microversion(cloud_app, minor - 1, method, path, body, before)
        check_response_of_microversion(cloud_app, minor, method, path, body, after)
    for minor in (14, 15):
        headers = {"OpenStack-API-Version": f"placement 1.{minor}"}
        response = cloud_app.get(f"/placement/resource_providers/{HOST_UUID}", headers=headers)
        assert ("Last-Modified" in response.headers) is (minor == 15)
    assert {15, *(minor for minor, *_ in RESPONSES_BY_MICROVERSION)} == set(
        range(1, NEWEST.minor + 1)
    )
