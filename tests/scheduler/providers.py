# SPDX-License-Identifier: Apache-2.0
"""Providers and allocations, changed and read through the placement API."""

from collections.abc import Collection, Mapping
from typing import Any

from webtest import TestApp

from tests.support.clouds import uuid_of
from tests.support.versions import LATEST_HEADERS

PROVIDERS_PATH = "/placement/resource_providers"


def change_provider(app: TestApp, uuid: str, kind: str, values: Any) -> None:
    """Set the ``inventories``, ``traits`` or ``aggregates`` of a provider."""
    path = f"{PROVIDERS_PATH}/{uuid}"
    generation = app.get(path, headers=LATEST_HEADERS).json["generation"]
    body = {kind: values, "resource_provider_generation": generation}
    app.put_json(f"{path}/{kind}", body, headers=LATEST_HEADERS)


def set_inventory_totals(app: TestApp, uuid: str, totals: Mapping[str, int]) -> None:
    """Set the inventories of a provider to these totals."""
    inventories = {name: {"total": total} for name, total in totals.items()}
    change_provider(app, uuid, "inventories", inventories)


def add_provider(
    app: TestApp, name: str, uuid: str | None = None, *, parent: str | None = None, **totals: int
) -> str:
    """Add a provider with these totals and return its uuid."""
    uuid = uuid or uuid_of(name)
    body = {"name": name, "uuid": uuid, "parent_provider_uuid": parent}
    app.post_json(PROVIDERS_PATH, body, headers=LATEST_HEADERS)
    for resource_class in totals:
        if resource_class.startswith("CUSTOM_"):
            path = f"/placement/resource_classes/{resource_class}"
            app.put(path, headers=LATEST_HEADERS)
    if totals:
        set_inventory_totals(app, uuid, totals)
    return uuid


def add_sharing_provider(
    app: TestApp, uuid: str, aggregate: str, hosts: Collection[str], **totals: int
) -> None:
    """Add a provider that these hosts share through an aggregate."""
    add_provider(app, f"pool {uuid}", uuid, **totals)
    change_provider(app, uuid, "traits", ["MISC_SHARES_VIA_AGGREGATE"])
    for provider in (uuid, *map(uuid_of, hosts)):
        path = f"{PROVIDERS_PATH}/{provider}/aggregates"
        aggregates = app.get(path, headers=LATEST_HEADERS).json["aggregates"]
        change_provider(app, provider, "aggregates", [*aggregates, aggregate])


def read_allocations_of_consumer(app, uuid):
    return app.get(f"/placement/allocations/{uuid}", headers=LATEST_HEADERS).json["allocations"]


def read_usages(app):
    path = "/placement/resource_providers"
    providers = app.get(path, headers=LATEST_HEADERS).json["resource_providers"]
    return [
        app.get(f"{path}/{provider['uuid']}/usages", headers=LATEST_HEADERS).json["usages"]
        for provider in providers
    ]
