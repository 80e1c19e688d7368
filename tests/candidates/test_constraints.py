# SPDX-License-Identifier: Apache-2.0
"""Aggregates of a root provider that count for its children."""

from uuid import uuid4

import pytest

from tests.support.versions import LATEST_HEADERS

pytestmark = pytest.mark.all_databases

ONE, OTHER = "e0000000-0000-4000-8000-000000000001", "e0000000-0000-4000-8000-000000000002"


def create_provider(app, name, aggregates, parent=None):
    uuid = str(uuid4())
    path = f"/placement/resource_providers/{uuid}"
    body = {"name": name, "uuid": uuid, "parent_provider_uuid": parent}
    app.post_json("/placement/resource_providers", body, headers=LATEST_HEADERS)
    stock = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 4}}}
    app.put_json(
        f"{path}/inventories",
        stock if parent else stock | {"inventories": {}},
        headers=LATEST_HEADERS,
    )
    joined = {"resource_provider_generation": 1, "aggregates": aggregates}
    app.put_json(f"{path}/aggregates", joined, headers=LATEST_HEADERS)
    return uuid


@pytest.mark.parametrize(
    ("of_root", "of_child", "count"),
    [([ONE], [OTHER], 0), ([ONE, OTHER], [], 1), ([], [ONE, OTHER], 1), ([ONE], [ONE, OTHER], 1)],
)
def test_member_of_terms_match_one_of_provider_and_root(app, of_root, of_child, count):
    root = create_provider(app, "root", of_root)
    create_provider(app, "child", of_child, root)
    query = f"resources=VCPU:1&member_of={ONE}&member_of={OTHER}"
    answer = app.get(f"/placement/allocation_candidates?{query}", headers=LATEST_HEADERS).json
    assert len(answer["allocation_requests"]) == count
