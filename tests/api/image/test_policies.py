# SPDX-License-Identifier: Apache-2.0
"""Policy rules of images, which are checked before the image is read."""

import pytest

from placement_sched.config.conf import read_files
from placement_sched.config.settings import Settings
from placement_sched.scheduler.plugins import make_full_conf
from tests.api.image.conftest import URL

UUID = "70a599e0-31e7-49b7-b260-868f441e862b"
ONE = f"{URL}/{UUID}"
PATCH = "application/openstack-images-v2.1-json-patch"
JSON = "application/json"
BYTES = "application/octet-stream"
#: Rule, method, path, body and its type.
READERS = [
    ("get_images", "GET", URL, b"", ""),
    ("get_image", "GET", ONE, b"", ""),
    ("get_image", "GET", "/image/v2/schemas/image", b"", ""),
    ("get_image", "GET", "/image/v2/info/import", b"", ""),
    ("download_image", "GET", f"{ONE}/file", b"", ""),
]
MEMBERS = [
    ("add_image", "POST", URL, b"{}", JSON),
    ("modify_image", "PATCH", ONE, b"[]", PATCH),
    ("modify_image", "PUT", f"{ONE}/tags/x", b"", ""),
    ("modify_image", "DELETE", f"{ONE}/tags/x", b"", ""),
    ("delete_image", "DELETE", ONE, b"", ""),
    ("upload_image", "PUT", f"{ONE}/file", b"", BYTES),
]
ADMINISTRATORS = [
    ("deactivate", "POST", f"{ONE}/actions/deactivate", b"", ""),
    ("reactivate", "POST", f"{ONE}/actions/reactivate", b"", ""),
]
ALL = [*READERS, *MEMBERS, *ADMINISTRATORS]
each_call = pytest.mark.parametrize(("rule", "method", "path", "body", "kind"), ALL)


def send_call(app, method, path, body, kind, token, roles=None):
    headers = {"X-Auth-Token": token} | ({} if roles is None else {"X-Roles": roles})
    headers |= {"Content-Type": kind} if kind else {}
    return app.request(path, method=method, body=body, headers=headers, status="*")


@each_call
def test_call_requires_its_roles(sqlite_app, rule, method, path, body, kind):
    call = (rule, method, path, body, kind)
    may = {"admin"}
    may |= {"member"} if call in READERS + MEMBERS else set()
    may |= {"reader"} if call in READERS else set()
    for role in ("admin", "member", "reader", "other", ""):
        answer = send_call(sqlite_app, method, path, body, kind, "bob:shop", role)
        is_rejected = answer.status_int == 403 and rule in answer.json["message"]
        assert is_rejected == (role not in may), role
    assert send_call(sqlite_app, method, path, body, kind, "admin").status_int != 403
    assert send_call(sqlite_app, method, path, body, kind, "bob:shop").status_int == 403


@pytest.mark.parametrize("rule", sorted({call[0] for call in ALL}))
def test_rules_are_configurable(make_app, sqlite_url, tmp_path, rule):
    app = app_with_policy(make_app, sqlite_url, tmp_path, {rule: "role:operator"})
    for named, *call in ALL:
        if named == rule:
            assert send_call(app, *call, "bob", "operator").status_int != 403
            assert send_call(app, *call, "admin").status_int == 403


def test_glance_owner_rule_is_supported(make_app, sqlite_url, tmp_path):
    """The rule is from glance's sample of policies."""
    check = "role:admin or (role:member and project_id:%(project_id)s and project_id:%(owner)s)"
    app = app_with_policy(make_app, sqlite_url, tmp_path, {"add_image": check})
    answer = send_call(app, "POST", URL, b"{}", JSON, "bob:shop", "member")
    assert (answer.status_int, answer.json["owner"]) == (201, "shop")


def test_publish_and_list_all_rules_are_configurable(make_app, sqlite_url, tmp_path):
    rules = {"publicize_image": "role:publisher", "context_is_admin": "role:auditor"}
    app = app_with_policy(make_app, sqlite_url, tmp_path, rules)
    body = b'{"visibility": "public"}'
    assert send_call(app, "POST", URL, body, JSON, "bob:shop", "member").status_int == 403
    assert send_call(app, "POST", URL, body, JSON, "bob:shop", "member,publisher").status_int == 201
    hidden = send_call(app, "POST", URL, b"{}", JSON, "bob:shop", "member").json["id"]
    path = f"{URL}/{hidden}"
    assert send_call(app, "GET", path, b"", "", "eve:bank", "reader").status_int == 404
    assert send_call(app, "GET", path, b"", "", "eve:bank", "reader,auditor").status_int == 200


def app_with_policy(make_app, sqlite_url, tmp_path, rules):
    policy = tmp_path / "policy.yaml"
    policy.write_text("".join(f'"{rule}": "{check}"\n' for rule, check in rules.items()))
    file = tmp_path / "placement.conf"
    file.write_text(
        f"[placement_database]\nconnection = {sqlite_url}\n[oslo_policy]\npolicy_file = {policy}\n"
    )
    return make_app(Settings.from_conf(read_files(make_full_conf(), [str(file)])))
