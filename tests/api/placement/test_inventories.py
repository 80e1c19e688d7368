# SPDX-License-Identifier: Apache-2.0
"""Invalid inventories. ``gabbits/inventories.yaml`` has the other cases."""

from tests.api.placement.provider_requests import check_error_and_get_detail
from tests.support.versions import LATEST_HEADERS


def test_invalid_inventory_is_rejected(sqlite_app, provider_uuid):
    fields = {
        "reserved": (-1, 2),
        **dict.fromkeys(("min_unit", "max_unit", "step_size"), (0,)),
        "allocation_ratio": ("1", 3.5e38, -1),
        "llama": (1,),
    }
    for inventory in [
        *({}, None, []),
        *({"total": total} for total in (0, 2**31, "1", True, 1.5)),
        *({"total": 1, name: value} for name, values in fields.items() for value in values),
    ]:
        path = f"/placement/resource_providers/{provider_uuid}/inventories"
        body = {"resource_provider_generation": 0, "inventories": {"VCPU": inventory}}
        check_error_and_get_detail(
            sqlite_app.put_json(path, body, headers=LATEST_HEADERS, status=400)
        )
        assert sqlite_app.get(path, headers=LATEST_HEADERS).json["inventories"] == {}, inventory


def test_invalid_resource_class_name_of_an_inventory_is_rejected(sqlite_app, provider_uuid):
    for name in ["vcpu", "V CPU", "", "V-1", "VCPU\n"]:
        path = f"/placement/resource_providers/{provider_uuid}/inventories"
        body = {"resource_class": name, "total": 1}
        check_error_and_get_detail(
            sqlite_app.post_json(path, body, headers=LATEST_HEADERS, status=400)
        )
