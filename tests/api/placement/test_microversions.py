# SPDX-License-Identifier: Apache-2.0
"""Every microversion of the Placement API: a request to the version before it, and to it."""

from uuid import uuid4

import pytest

from placement_sched.api.placement.microversions import NEWEST
from tests.support.clouds import uuid_of
from tests.support.versions import LATEST, LATEST_HEADERS

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


def sorted_keys(document):
    return sorted(document)


def names_of_providers(document):
    return [provider["name"] for provider in document["resource_providers"]]


def relations_of_links(document):
    return [link["rel"] for link in document["links"]]


def allocations_of_candidates(document):
    return [request["allocations"] for request in document["allocation_requests"]]


def list_allocation_requests(document):
    return document["allocation_requests"]


def summarized_classes(document):
    return sorted(document["provider_summaries"][HOST]["resources"])


def keys_of_first_error(document):
    return sorted(document["errors"][0])


#: The minor version, a request, and the result at the version before and at the version: a status,
#: or a function of the document and its value.
EDGES = [
    (1, "GET", f"{RP}/{HOST}/aggregates", None, 404, (dict, {"aggregates": [GROUP]})),
    (2, "POST", "/resource_classes", {"name": "CUSTOM_MV"}, 404, 201),
    (3, "GET", f"{RP}?member_of={GROUP}", None, 400, (names_of_providers, ["host", "disk"])),
    (4, "GET", f"{RP}?resources=VCPU:8", None, 400, (names_of_providers, ["host"])),
    (5, "DELETE", f"{RP}/{BARE}/inventories", None, 405, 204),
    (
        6,
        "GET",
        f"{RP}/{NIC1}/traits",
        None,
        404,
        (sorted_keys, ["resource_provider_generation", "traits"]),
    ),
    (7, "PUT", "/resource_classes/CUSTOM_MV", {"name": "CUSTOM_NEW"}, 200, 201),
    (8, "PUT", CONSUMER, LISTED, 400, 204),
    (9, "GET", USAGES, None, 404, (dict, {"usages": {"VCPU": 1}})),
    (
        10,
        "GET",
        f"{CANDIDATES}?resources=VCPU:1",
        None,
        404,
        (allocations_of_candidates, [LISTED["allocations"]]),
    ),
    (
        *(11, "GET", f"{RP}/{HOST}", None),
        (relations_of_links, ["self", "inventories", "usages", "aggregates", "traits"]),
        (
            relations_of_links,
            ["self", "inventories", "usages", "aggregates", "traits", "allocations"],
        ),
    ),
    (12, "PUT", CONSUMER, claim_body(), 400, 204),
    (
        *(12, "GET", CONSUMER, None),
        (sorted_keys, ["allocations"]),
        (sorted_keys, ["allocations", "project_id", "user_id"]),
    ),
    (13, "POST", "/allocations", {CONSUMER[13:]: claim_body(allocations={})}, 404, 204),
    (
        *(14, "GET", f"{RP}/{NIC1}", None),
        (sorted_keys, ["generation", "links", "name", "uuid"]),
        (lambda nic: (nic["parent_provider_uuid"], nic["root_provider_uuid"]), (HOST, HOST)),
    ),
    (16, "GET", f"{CANDIDATES}?resources=SRIOV_NET_VF:1&limit=1", None, 400, 200),
    (
        *(17, "GET", f"{CANDIDATES}?resources=SRIOV_NET_VF:1&required=CUSTOM_NET", None, 400),
        (lambda found: found["provider_summaries"][NIC1]["traits"], ["CUSTOM_NET"]),
    ),
    (18, "GET", f"{RP}?required=CUSTOM_NET", None, 400, (names_of_providers, ["nic1"])),
    (19, "PUT", f"{RP}/{BARE}/aggregates", [GROUP], 200, 400),
    (19, "PUT", f"{RP}/{BARE}/aggregates", BY_GENERATION, 400, 409),
    (20, "POST", RP, lambda version: {"name": version}, 201, (sorted_keys, 6)),
    (
        21,
        "GET",
        f"{CANDIDATES}?resources=VCPU:1&member_of={GROUP}",
        None,
        400,
        (list_allocation_requests, 1),
    ),
    (
        *(22, "GET", f"{CANDIDATES}?resources=SRIOV_NET_VF:1&required=!CUSTOM_NET", None, 400),
        (allocations_of_candidates, [{NIC2: FUNCTIONS}]),
    ),
    (23, "POST", RP, {"name": "host"}, (keys_of_first_error, 4), (keys_of_first_error, 5)),
    (
        *(24, "GET", f"{CANDIDATES}?resources=VCPU:1&member_of={GROUP}&member_of={uuid4()}", None),
        *(400, (list_allocation_requests, 0)),
    ),
    (
        *(25, "GET", f"{CANDIDATES}?resources1=VCPU:1&resources2=MEMORY_MB:64&group_policy=none"),
        *(
            None,
            400,
            (allocations_of_candidates, [{HOST: {"resources": {"VCPU": 1, "MEMORY_MB": 64}}}]),
        ),
    ),
    (
        *(26, "POST", f"{RP}/{BARE}/inventories"),
        *({"resource_class": "VCPU", "total": 2, "reserved": 2}, 400, 201),
    ),
    (
        *(27, "GET", f"{CANDIDATES}?resources=VCPU:1", None),
        *((summarized_classes, ["VCPU"]), (summarized_classes, ["MEMORY_MB", "VCPU"])),
    ),
    (28, "PUT", CONSUMER, claim_body(consumer_generation=None), 400, 204),
    (28, "GET", CONSUMER, None, (sorted_keys, 3), (lambda claim: claim["consumer_generation"], 1)),
    (
        *(29, "GET", f"{CANDIDATES}?resources=VCPU:1,SRIOV_NET_VF:1&required=CUSTOM_NET", None),
        (list_allocation_requests, 0),
        (lambda found: sorted(found["provider_summaries"]), sorted([HOST, NIC1, NIC2])),
    ),
    (30, "POST", "/reshaper", RESHAPE, 404, 204),
    (
        31,
        "GET",
        f"{CANDIDATES}?resources=VCPU:1&in_tree={DISK}",
        None,
        400,
        (list_allocation_requests, 0),
    ),
    (
        32,
        "GET",
        f"{CANDIDATES}?resources=VCPU:1&member_of=!{GROUP}",
        None,
        400,
        (list_allocation_requests, 0),
    ),
    (33, "GET", f"{CANDIDATES}?resources_CPU=VCPU:1", None, 400, (list_allocation_requests, 1)),
    (
        *(34, "GET", f"{CANDIDATES}?resources_NET=SRIOV_NET_VF:3", None),
        (lambda found: sorted_keys(found["allocation_requests"][0]), ["allocations"]),
        (lambda found: found["allocation_requests"][0]["mappings"], {"_NET": [NIC1]}),
    ),
    (
        *(35, "GET", f"{CANDIDATES}?resources=SRIOV_NET_VF:3&root_required=HW_CPU_X86_AVX2", None),
        *(400, (list_allocation_requests, 1)),
    ),
    (
        *(36, "GET", f"{CANDIDATES}?{SUBTREE}", None, 400),
        (lambda found: found["allocation_requests"][0]["mappings"], {"_C": [HOST], "_N": [NIC1]}),
    ),
    (37, "PUT", f"{RP}/{NIC2}", MOVE, 400, (lambda nic: nic["root_provider_uuid"], BARE)),
    (
        *(38, "PUT", CONSUMER, claim_body(consumer_generation=1, consumer_type="INSTANCE")),
        *(400, 204),
    ),
    (
        *(38, "GET", USAGES, None),
        (dict, {"usages": {"VCPU": 2}}),
        (dict, {"usages": {"INSTANCE": {"VCPU": 2, "consumer_count": 1}}}),
    ),
    (
        *(39, "GET", f"{CANDIDATES}?resources=VCPU:1&required=in:HW_CPU_X86_AVX2,HW_CPU_X86_SSE"),
        *(None, 400, (list_allocation_requests, 1)),
    ),
    (
        *(39, "GET", f"{RP}?required=HW_CPU_X86_AVX2&required=CUSTOM_NET", None),
        *((names_of_providers, ["nic1"]), (names_of_providers, [])),
    ),
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


def check_response_of_version(app, minor, method, path, body, expected):
    headers = {"OpenStack-API-Version": f"placement 1.{minor}", "X-Roles": "admin,service"}
    body = body(f"mv{minor}") if callable(body) else body
    url, options = f"/placement{path}", {"headers": headers, "status": "*"}
    if body is None:
        answer = app.request(url, method=method, **options)
    else:
        answer = getattr(app, f"{method.lower()}_json")(url, body, **options)
    if isinstance(expected, int):
        assert answer.status_int == expected, (minor, method, path, answer.text)
        return
    read, value = expected
    result = read(answer.json)
    assert (len(result) if isinstance(value, int) and not isinstance(result, int) else result) == (
        value
    ), (minor, method, path)


def test_each_microversion_changes_its_request(cloud):
    for minor, method, path, body, before, after in EDGES:
        check_response_of_version(cloud, minor - 1, method, path, body, before)
        check_response_of_version(cloud, minor, method, path, body, after)
    for minor in (14, 15):
        headers = {"OpenStack-API-Version": f"placement 1.{minor}"}
        answer = cloud.get(f"/placement{RP}/{HOST}", headers=headers)
        assert ("Last-Modified" in answer.headers) is (minor == 15)
    assert {15, *(minor for minor, *_ in EDGES)} == set(range(1, NEWEST.minor + 1))


def test_microversion_of_a_request_is_negotiated(sqlite_app):
    for requested, answered in (("placement latest", LATEST), ("compute 2.1", "1.0")):
        answer = sqlite_app.get(f"/placement{RP}", headers={"OpenStack-API-Version": requested})
        assert answer.headers["OpenStack-API-Version"] == f"placement {answered}"
    for version in ("1.400", "0.9"):
        headers = {"OpenStack-API-Version": f"placement {version}"}
        (error,) = sqlite_app.get(f"/placement{RP}", headers=headers, status=406).json["errors"]
        assert (error["min_version"], error["max_version"]) == ("1.0", LATEST)
