# SPDX-License-Identifier: Apache-2.0
"""Every microversion of the Placement API: a request to the version before it, and to it."""

from uuid import uuid4

import pytest

from placement_sched.api.placement.microversions import NEWEST
from tests.support.clouds import uuid_of
from tests.support.versions import LATEST_HEADERS

pytestmark = pytest.mark.all_databases

HOST, NIC1, NIC2, DISK, BARE = (uuid_of(name) for name in ("host", "nic1", "nic2", "disk", "bare"))
GROUP, CONSUMER = str(uuid4()), f"/allocations/{uuid4()}"
RP, CANDIDATES, USAGES = "/resource_providers", "/allocation_candidates", "/usages?project_id=shop"
OWNER = {"project_id": "shop", "user_id": "bob"}
SUBTREE = "resources_C=VCPU:1&resources_N=SRIOV_NET_VF:3&group_policy=none&same_subtree=_C,_N"
FUNCTIONS = {"resources": {"SRIOV_NET_VF": 1}}


def claim_body(**fields):
    return {"allocations": {HOST: {"resources": {"VCPU": 2}}}, **OWNER, **fields}


LISTED = {**OWNER, "allocations": [{"resource_provider": {"uuid": HOST}, "resources": {"VCPU": 1}}]}
BY_GENERATION = {"aggregates": [], "resource_provider_generation": 77}
RESHAPE = {
    "inventories": {
        NIC2: {"resource_provider_generation": 1, "inventories": {"SRIOV_NET_VF": {"total": 2}}}
    },
    "allocations": {},
}
MOVE = {"name": "nic2", "parent_provider_uuid": BARE}


#: The links of a provider before 1.11.
LINKS = ["self", "inventories", "usages", "aggregates", "traits"]
AVX2, NET = "HW_CPU_X86_AVX2", "CUSTOM_NET"
ONE_CPU, ONE_VF = "resources=VCPU:1", "resources=SRIOV_NET_VF:1"
RESOURCES_OF_HOST = f"provider_summaries.{HOST}.resources.keys"
STOCK = {"resource_class": "VCPU", "total": 2, "reserved": 2}


def providers(*names):
    return {"resource_providers.*.name": [*names]}


def candidates(*allocations):
    return {"allocation_requests.*.allocations": [*allocations]}


def count(number):
    return {"allocation_requests.length": number}


def keys(*names):
    return {"keys": sorted(names)}


#: The minor version, a request, and the response of the version before and of the version: a
#: status, or values by their paths in the document. The body is last.
EDGES = [
    (1, "GET", f"{RP}/{HOST}/aggregates", 404, {"aggregates": [GROUP]}),
    (2, "POST", "/resource_classes", 404, 201, {"name": "CUSTOM_MV"}),
    (3, "GET", f"{RP}?member_of={GROUP}", 400, providers("host", "disk")),
    (4, "GET", f"{RP}?resources=VCPU:8", 400, providers("host")),
    (5, "DELETE", f"{RP}/{BARE}/inventories", 405, 204),
    (6, "GET", f"{RP}/{NIC1}/traits", 404, keys("resource_provider_generation", "traits")),
    (7, "PUT", "/resource_classes/CUSTOM_MV", 200, 201, {"name": "CUSTOM_NEW"}),
    (8, "PUT", CONSUMER, 400, 204, LISTED),
    (9, "GET", USAGES, 404, {"usages": {"VCPU": 1}}),
    (10, "GET", f"{CANDIDATES}?{ONE_CPU}", 404, candidates(LISTED["allocations"])),
    (
        *(11, "GET", f"{RP}/{HOST}"),
        *({"links.*.rel": LINKS}, {"links.*.rel": [*LINKS, "allocations"]}),
    ),
    (12, "PUT", CONSUMER, 400, 204, claim_body()),
    (12, "GET", CONSUMER, keys("allocations"), keys("allocations", "project_id", "user_id")),
    (13, "POST", "/allocations", 404, 204, {CONSUMER[13:]: claim_body(allocations={})}),
    (
        *(14, "GET", f"{RP}/{NIC1}", keys("generation", "links", "name", "uuid")),
        {"parent_provider_uuid": HOST, "root_provider_uuid": HOST},
    ),
    (16, "GET", f"{CANDIDATES}?{ONE_VF}&limit=1", 400, 200),
    (
        *(17, "GET", f"{CANDIDATES}?{ONE_VF}&required={NET}", 400),
        {f"provider_summaries.{NIC1}.traits": [NET]},
    ),
    (18, "GET", f"{RP}?required={NET}", 400, providers("nic1")),
    (19, "PUT", f"{RP}/{BARE}/aggregates", 200, 400, [GROUP]),
    (19, "PUT", f"{RP}/{BARE}/aggregates", 400, 409, BY_GENERATION),
    (20, "POST", RP, 201, {"length": 6}, lambda version: {"name": version}),
    (21, "GET", f"{CANDIDATES}?{ONE_CPU}&member_of={GROUP}", 400, count(1)),
    (22, "GET", f"{CANDIDATES}?{ONE_VF}&required=!{NET}", 400, candidates({NIC2: FUNCTIONS})),
    (23, "POST", RP, {"errors.0.length": 4}, {"errors.0.length": 5}, {"name": "host"}),
    (24, "GET", f"{CANDIDATES}?{ONE_CPU}&member_of={GROUP}&member_of={uuid4()}", 400, count(0)),
    (
        *(25, "GET", f"{CANDIDATES}?resources1=VCPU:1&resources2=MEMORY_MB:64&group_policy=none"),
        *(400, candidates({HOST: {"resources": {"VCPU": 1, "MEMORY_MB": 64}}})),
    ),
    (26, "POST", f"{RP}/{BARE}/inventories", 400, 201, STOCK),
    (
        *(27, "GET", f"{CANDIDATES}?{ONE_CPU}"),
        *({RESOURCES_OF_HOST: ["VCPU"]}, {RESOURCES_OF_HOST: ["MEMORY_MB", "VCPU"]}),
    ),
    (28, "PUT", CONSUMER, 400, 204, claim_body(consumer_generation=None)),
    (28, "GET", CONSUMER, {"length": 3}, {"consumer_generation": 1}),
    (
        *(29, "GET", f"{CANDIDATES}?resources=VCPU:1,SRIOV_NET_VF:1&required={NET}"),
        *(count(0), {"provider_summaries.keys": sorted([HOST, NIC1, NIC2])}),
    ),
    (30, "POST", "/reshaper", 404, 204, RESHAPE),
    (31, "GET", f"{CANDIDATES}?{ONE_CPU}&in_tree={DISK}", 400, count(0)),
    (32, "GET", f"{CANDIDATES}?{ONE_CPU}&member_of=!{GROUP}", 400, count(0)),
    (33, "GET", f"{CANDIDATES}?resources_CPU=VCPU:1", 400, count(1)),
    (
        *(34, "GET", f"{CANDIDATES}?resources_NET=SRIOV_NET_VF:3"),
        {"allocation_requests.0.keys": ["allocations"]},
        {"allocation_requests.0.mappings": {"_NET": [NIC1]}},
    ),
    (35, "GET", f"{CANDIDATES}?resources=SRIOV_NET_VF:3&root_required={AVX2}", 400, count(1)),
    (
        *(36, "GET", f"{CANDIDATES}?{SUBTREE}", 400),
        {"allocation_requests.0.mappings": {"_C": [HOST], "_N": [NIC1]}},
    ),
    (37, "PUT", f"{RP}/{NIC2}", 400, {"root_provider_uuid": BARE}, MOVE),
    (38, "PUT", CONSUMER, 400, 204, claim_body(consumer_generation=1, consumer_type="INSTANCE")),
    (
        *(38, "GET", USAGES, {"usages": {"VCPU": 2}}),
        {"usages": {"INSTANCE": {"VCPU": 2, "consumer_count": 1}}},
    ),
    (39, "GET", f"{CANDIDATES}?{ONE_CPU}&required=in:{AVX2},HW_CPU_X86_SSE", 400, count(1)),
    (39, "GET", f"{RP}?required={AVX2}&required={NET}", providers("nic1"), providers()),
]


def create_providers(app, *providers):
    """Create providers: name, name of the parent, inventories, traits and aggregates of each."""
    for name, parent, inventories, traits, aggregates in providers:
        body = {"name": name, "uuid": uuid_of(name)}
        body["parent_provider_uuid"] = uuid_of(parent) if parent else None
        app.post_json(f"/placement{RP}", body, headers=LATEST_HEADERS)
        nouns = {"inventories": inventories, "traits": traits, "aggregates": aggregates}
        for generation, (noun, items) in enumerate(each for each in nouns.items() if each[1]):
            body = {noun: items, "resource_provider_generation": generation}
            app.put_json(f"/placement{RP}/{uuid_of(name)}/{noun}", body, headers=LATEST_HEADERS)


@pytest.fixture
def cloud(app):
    """A host with two network cards and a shared disk, and a bare provider."""
    app.put("/placement/traits/CUSTOM_NET", headers=LATEST_HEADERS, status=201)
    stock = {"VCPU": {"total": 8}, "MEMORY_MB": {"total": 1024}}
    create_providers(
        app,
        ("host", None, stock, ["HW_CPU_X86_AVX2"], [GROUP]),
        ("nic1", "host", {"SRIOV_NET_VF": {"total": 4}}, ["CUSTOM_NET"], []),
        ("nic2", "host", {"SRIOV_NET_VF": {"total": 2}}, [], []),
        ("disk", None, {"DISK_GB": {"total": 100}}, ["MISC_SHARES_VIA_AGGREGATE"], [GROUP]),
        ("bare", None, {}, [], []),
    )
    return app


def read_value(document, path):
    """Return a part of a document: ``*`` is each item, ``keys`` and ``length`` end a path."""
    name, _, rest = path.partition(".")
    if name == "keys":
        return sorted(document)
    if name == "length":
        return len(document)
    if name == "*":
        return [read_value(item, rest) for item in document]
    value = document[int(name) if name.isdigit() else name]
    return read_value(value, rest) if rest else value


def check_response_of_version(app, minor, method, path, body, expected):
    headers = {"OpenStack-API-Version": f"placement 1.{minor}", "X-Roles": "admin,service"}
    body = body(f"mv{minor}") if callable(body) else body
    url, options = f"/placement{path}", {"headers": headers, "status": "*"}
    if body is None:
        answer = app.request(url, method=method, **options)
    else:
        answer = getattr(app, f"{method.lower()}_json")(url, body, **options)
    request = (minor, method, path)
    if isinstance(expected, int):
        assert answer.status_int == expected, (request, answer.text)
        return
    assert {name: read_value(answer.json, name) for name in expected} == expected, request


def test_each_microversion_has_its_documented_change_and_the_version_before_has_not(cloud):
    for minor, method, path, before, after, *rest in EDGES:
        body = rest[0] if rest else None
        check_response_of_version(cloud, minor - 1, method, path, body, before)
        check_response_of_version(cloud, minor, method, path, body, after)
    for minor in (14, 15):
        headers = {"OpenStack-API-Version": f"placement 1.{minor}"}
        answer = cloud.get(f"/placement{RP}/{HOST}", headers=headers)
        assert ("Last-Modified" in answer.headers) is (minor == 15)
    assert {15, *(minor for minor, *_ in EDGES)} == set(range(1, NEWEST.minor + 1))
