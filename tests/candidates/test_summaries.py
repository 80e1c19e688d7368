# SPDX-License-Identifier: Apache-2.0
"""Cached provider summaries are current after every change."""

from uuid import uuid4

import pytest

from placement_sched.model.provider import MAX_INT
from tests.support.versions import LATEST_HEADERS

pytestmark = pytest.mark.all_databases

WITH_CLASS_RENAMES = {"OpenStack-API-Version": "placement 1.6"}
BEFORE_ALL_CLASSES = {"OpenStack-API-Version": "placement 1.26"}


@pytest.fixture
def provider(app):
    body = {"name": "cn1", "uuid": str(uuid4())}
    app.post_json("/placement/resource_providers", body, headers=LATEST_HEADERS)
    put_inventory(app, body["uuid"], VCPU=8, MEMORY_MB=1024)
    return body["uuid"]


def put_inventory(app, uuid, **totals):
    path = f"/placement/resource_providers/{uuid}"
    body = {
        "resource_provider_generation": app.get(path, headers=LATEST_HEADERS).json["generation"],
        "inventories": {name: {"total": total} for name, total in totals.items()},
    }
    app.put_json(f"{path}/inventories", body, headers=LATEST_HEADERS)


def put_allocation(app, consumer, uuid, amount):
    body = {
        "allocations": {uuid: {"resources": {"VCPU": amount}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }
    app.put_json(f"/placement/allocations/{consumer}", body, headers=LATEST_HEADERS)


def read_summary(app, uuid, headers=LATEST_HEADERS, resource_class="VCPU"):
    answer = app.get(
        f"/placement/allocation_candidates?resources={resource_class}:1", headers=headers
    )
    return answer.json["provider_summaries"][uuid]


def test_usage_is_current_after_allocations_are_deleted(app, provider):
    def read_used():
        return read_summary(app, provider)["resources"]["VCPU"]["used"]

    consumer = str(uuid4())
    assert read_used() == 0
    put_allocation(app, consumer, provider, 3)
    assert read_used() == 3
    app.delete(f"/placement/allocations/{consumer}", headers=LATEST_HEADERS)
    assert read_used() == 0


def test_changed_inventory_is_summarized_at_once(app, provider):
    assert read_summary(app, provider)["resources"]["VCPU"]["capacity"] == 8
    put_inventory(app, provider, VCPU=16)
    assert read_summary(app, provider)["resources"] == {"VCPU": {"capacity": 16, "used": 0}}


def test_changed_traits_are_summarized_at_once(app, provider):
    assert read_summary(app, provider)["traits"] == []
    path = f"/placement/resource_providers/{provider}"
    generation = app.get(path, headers=LATEST_HEADERS).json["generation"]
    body = {"resource_provider_generation": generation, "traits": ["HW_CPU_X86_AVX"]}
    app.put_json(f"{path}/traits", body, headers=LATEST_HEADERS)
    assert read_summary(app, provider)["traits"] == ["HW_CPU_X86_AVX"]


def test_renamed_class_is_summarized_by_its_new_name(app, provider):
    app.post_json("/placement/resource_classes", {"name": "CUSTOM_OLD"}, headers=LATEST_HEADERS)
    put_inventory(app, provider, VCPU=8, CUSTOM_OLD=1)
    assert read_summary(app, provider)["resources"].keys() == {"VCPU", "CUSTOM_OLD"}
    renamed = {"name": "CUSTOM_NEW"}
    path = "/placement/resource_classes/CUSTOM_OLD"
    app.put_json(path, renamed, headers=WITH_CLASS_RENAMES)
    assert read_summary(app, provider)["resources"].keys() == {"VCPU", "CUSTOM_NEW"}


def test_new_class_does_not_disturb_the_cache(app, provider):
    before = read_summary(app, provider)
    app.post_json("/placement/resource_classes", {"name": "CUSTOM_MORE"}, headers=LATEST_HEADERS)
    assert read_summary(app, provider) == before


def test_before_1_27_only_requested_classes_are_reported(app, provider):
    put_allocation(app, str(uuid4()), provider, 2)
    expected = {"VCPU": {"capacity": 8, "used": 2}}
    assert read_summary(app, provider, BEFORE_ALL_CLASSES)["resources"] == expected


def test_recreated_provider_has_current_summary(app, provider):
    assert read_summary(app, provider)["resources"]["VCPU"]["capacity"] == 8
    path = f"/placement/resource_providers/{provider}"
    app.delete(path, headers=LATEST_HEADERS)
    app.post_json(
        "/placement/resource_providers", {"name": "cn1", "uuid": provider}, headers=LATEST_HEADERS
    )
    put_inventory(app, provider, VCPU=4)
    assert read_summary(app, provider)["resources"] == {"VCPU": {"capacity": 4, "used": 0}}


def test_usages_of_unrequested_classes_are_reported(app, provider):
    consumer = str(uuid4())
    body = {
        "allocations": {provider: {"resources": {"VCPU": 2, "MEMORY_MB": 256}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }
    app.put_json(f"/placement/allocations/{consumer}", body, headers=LATEST_HEADERS)
    lone = {"name": "cn2", "uuid": str(uuid4())}
    app.post_json("/placement/resource_providers", lone, headers=LATEST_HEADERS)
    put_inventory(app, lone["uuid"], VCPU=4)
    assert {uuid: read_summary(app, uuid)["resources"] for uuid in (provider, lone["uuid"])} == {
        provider: {
            "MEMORY_MB": {"capacity": 1024, "used": 256},
            "VCPU": {"capacity": 8, "used": 2},
        },
        lone["uuid"]: {"VCPU": {"capacity": 4, "used": 0}},
    }


def test_usage_beyond_the_largest_amount_is_reported(app, provider):
    path = f"/placement/resource_providers/{provider}"
    body = {
        "resource_provider_generation": app.get(path, headers=LATEST_HEADERS).json["generation"],
        "inventories": {
            "VCPU": {"total": MAX_INT, "allocation_ratio": 16.0},
            "MEMORY_MB": {"total": 1},
        },
    }
    app.put_json(f"{path}/inventories", body, headers=LATEST_HEADERS)
    for _ in range(3):
        put_allocation(app, str(uuid4()), provider, MAX_INT)
    for resource_class in ("VCPU", "MEMORY_MB"):
        assert read_summary(app, provider, resource_class=resource_class)["resources"]["VCPU"] == {
            "capacity": 16 * MAX_INT,
            "used": 3 * MAX_INT,
        }
