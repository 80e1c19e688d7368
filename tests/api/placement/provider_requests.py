# SPDX-License-Identifier: Apache-2.0
"""Requests for resource providers, and parts of responses."""

from tests.support.clouds import uuid_of
from tests.support.versions import LATEST_HEADERS

PROVIDERS_PATH = "/placement/resource_providers"


def create_providers(app, *definitions):
    """Create providers: name, name of the parent, inventories, traits and aggregates of each."""
    for name, parent, inventories, traits, aggregates in definitions:
        body = {"name": name, "uuid": uuid_of(name)}
        body["parent_provider_uuid"] = uuid_of(parent) if parent else None
        app.post_json("/placement/resource_providers", body, headers=LATEST_HEADERS)
        nouns = {"inventories": inventories, "traits": traits, "aggregates": aggregates}
        for generation, (noun, items) in enumerate(each for each in nouns.items() if each[1]):
            body = {noun: items, "resource_provider_generation": generation}
            app.put_json(
                f"/placement/resource_providers/{uuid_of(name)}/{noun}",
                body,
                headers=LATEST_HEADERS,
            )


def build_inventories(generation, **totals):
    return {
        "resource_provider_generation": generation,
        "inventories": {name: {"total": total} for name, total in totals.items()},
    }


def check_error_and_get_detail(response):
    (error,) = response.json["errors"]
    assert error["status"] == response.status_code
    assert error["request_id"] == response.headers["X-Openstack-Request-Id"]
    return error["detail"]


def list_values_of_key(app, path, key):
    return app.get(f"/placement{path}", headers=LATEST_HEADERS).json[key]
