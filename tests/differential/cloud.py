# SPDX-License-Identifier: Apache-2.0
"""A side's providers as a value, for the naive search."""

from placement_sched.model.provider import Inventory
from tests.differential.sides import Side
from tests.differential.state import get_in_newest_version
from tests.support.clouds import Cloud, Host, InventoryUsage


def read_cloud(side: Side) -> Cloud:
    listed = get_in_newest_version(side, "/resource_providers").document["resource_providers"]
    return Cloud(
        tuple(_read_host(side, item["uuid"], item["parent_provider_uuid"]) for item in listed)
    )


def _read_host(side: Side, uuid: str, parent: str | None) -> Host:
    path = f"/resource_providers/{uuid}"
    stock = get_in_newest_version(side, f"{path}/inventories").document["inventories"]
    used = get_in_newest_version(side, f"{path}/usages").document["usages"]
    return Host(
        name=uuid,
        inventories={
            name: InventoryUsage(Inventory(resource_class=name, **inventory), used[name])
            for name, inventory in stock.items()
        },
        traits=frozenset(get_in_newest_version(side, f"{path}/traits").document["traits"]),
        aggregates=frozenset(
            get_in_newest_version(side, f"{path}/aggregates").document["aggregates"]
        ),
        parent=parent,
    )
