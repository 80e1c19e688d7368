# SPDX-License-Identifier: Apache-2.0
"""Names with a newline at the end are rejected in every place."""

from tests.support.allocation_bodies import build_body, build_version_headers
from tests.support.versions import LATEST

PROVIDER_UUID = "0a0b0c0d-0000-4000-8000-00000000000f"


def test_name_with_a_trailing_newline_is_rejected(sqlite_app):
    provider = {"name": "host", "uuid": PROVIDER_UUID}
    sqlite_app.post_json(
        "/placement/resource_providers", provider, headers=build_version_headers(LATEST)
    )
    for method, path, body, status in [
        ("PUT", "/traits/CUSTOM_A%0A", None, 400),
        ("GET", "/traits/HW_CPU_X86_AVX2%0A", None, 404),
        ("PUT", "/resource_classes/CUSTOM_A%0A", None, 400),
        ("GET", "/resource_classes/VCPU%0A", None, 404),
        ("POST", "/resource_classes", {"name": "CUSTOM_A\n"}, 400),
        ("POST", "/resource_providers", {"name": "a", "uuid": f"{PROVIDER_UUID}\n"}, 400),
        ("GET", f"/resource_providers/{PROVIDER_UUID}%0A", None, 404),
        ("GET", f"/resource_providers?uuid={PROVIDER_UUID}%0A", None, 400),
        ("GET", f"/resource_providers?in_tree={PROVIDER_UUID}%0A", None, 400),
        ("GET", f"/resource_providers?member_of={PROVIDER_UUID}%0A", None, 400),
        ("GET", "/resource_providers?required=CUSTOM_A%0A", None, 400),
        ("GET", "/usages?project_id=p&consumer_type=INSTANCE%0A", None, 400),
        ("GET", "/allocation_candidates?resources=VCPU:1&limit=1%0A", None, 400),
        ("GET", "/allocation_candidates?resources1%0A=VCPU:1", None, 400),
        ("GET", "/allocation_candidates?resources=VCPU%0A:1", None, 400),
        ("PUT", f"/resource_providers/{PROVIDER_UUID}/inventories/VCPU%0A", {"total": 1}, 400),
    ]:
        ask = getattr(sqlite_app, f"{method.lower()}_json" if body else method.lower())
        more = (body,) if body else ()
        ask(f"/placement{path}", *more, headers=build_version_headers(LATEST), status=status)


def test_name_with_a_trailing_newline_in_a_claim_is_rejected(sqlite_app):
    for spoilt in [
        {"allocations": {f"{PROVIDER_UUID}\n": {"resources": {"VCPU": 1}}}},
        {"allocations": {PROVIDER_UUID: {"resources": {"VCPU\n": 1}}}},
        {"consumer_type": "INSTANCE\n"},
        {"mappings": {"_A": [f"{PROVIDER_UUID}\n"]}},
    ]:
        body = {**build_body(LATEST, {PROVIDER_UUID: {"VCPU": 1}}), **spoilt}
        path = f"/placement/allocations/{PROVIDER_UUID}"
        response = sqlite_app.put_json(
            path, body, headers=build_version_headers(LATEST), status=400
        )
        assert "does not validate" in response.text, spoilt
