"""oslo.policy: what the operator's file changes, which tokens are in scope, what is told of it."""

import logging
import os
from pathlib import Path

import pytest

from placement_sched.app import create_app
from placement_sched.errors import ConfigurationError

LATEST = {"OpenStack-API-Version": "placement latest"}
ADMIN = {**LATEST, "X-Auth-Token": "admin"}
READER = {**LATEST, "X-Auth-Token": "bob:shop", "X-Roles": "reader"}
SERVICE = {**LATEST, "X-Auth-Token": "nova:service", "X-Roles": "service"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "rules.yaml"


@pytest.fixture
def config(file: Path) -> str:
    return f"[oslo_policy]\npolicy_file = {file}\n"


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        ("placement:resource_providers:list", "/placement/resource_providers"),
        ("os_compute_api:os-aggregates:index", "/compute/v2.1/os-aggregates"),
        ("scheduler:compute_nodes:list", "/scheduler/v1/compute_nodes"),
    ],
)
def test_file_opens_and_closes_a_rule(configured_app, config, file, rule, path):
    file.write_text(f'"{rule}": "role:reader"\n')
    app = configured_app(config)
    app.get(path, headers=READER, status=200)
    app.get(path, headers=ADMIN, status=403)
    # Other rules stay as they are.
    app.get("/placement/traits", headers=READER, status=403)
    app.get("/placement/traits", headers=ADMIN, status=200)


def test_base_rule_of_the_file_changes_all_that_refer_to_it(configured_app, config, file):
    file.write_text('"admin_or_service_api": "role:reader"\n')
    app = configured_app(config)
    for path in ("/placement/resource_providers", "/placement/resource_classes"):
        app.get(path, headers=READER, status=200)
        app.get(path, headers=ADMIN, status=403)


def test_changed_file_is_heeded_without_a_restart(configured_app, config, file):
    file.write_text("{}\n")
    app = configured_app(config)
    app.get("/placement/traits", headers=READER, status=403)
    file.write_text('"placement:traits:list": "role:reader"\n')
    later = file.stat().st_mtime + 10
    os.utime(file, (later, later))
    app.get("/placement/traits", headers=READER, status=200)


def test_policy_yaml_beside_the_configuration_is_found(configured_app, tmp_path):
    (tmp_path / "policy.yaml").write_text('"placement:traits:list": "role:reader"\n')
    configured_app("").get("/placement/traits", headers=READER, status=200)


def test_rule_may_ask_for_the_project_of_the_query(configured_app, config, file):
    file.write_text('"placement:usages": "role:auditor or project_id:%(project_id)s"\n')
    app = configured_app(config)
    member = {**READER, "X-Roles": "member"}
    auditor = {**READER, "X-Roles": "auditor"}
    app.get("/placement/usages?project_id=shop", headers=member, status=200)
    app.get("/placement/usages?project_id=other", headers=member, status=403)
    app.get("/placement/usages?project_id=other", headers=auditor, status=200)


@pytest.mark.parametrize("text", ['"a": [', "just a sentence\n", '"a": "role:b"\n "c": "d"\n'])
def test_unreadable_file_is_told_at_start(configured, config, file, text):
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=r"policy_file .*rules\.yaml"):
        create_app(configured(config))


def test_absent_file_leaves_the_defaults_and_is_told(configured_app, config, caplog):
    app = configured_app(config)
    app.get("/placement/traits", headers=SERVICE, status=200)
    assert "there is no policy file" in caplog.text


def test_rule_nobody_has_is_told(configured_app, config, file, caplog):
    file.write_text('"placement:trait:list": "@"\n"mine": "role:a"\n')
    configured_app(config)
    told = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert told == [
        "the policy file changes placement:trait:list, which is no rule of this service"
    ]


#: Who may reshape is told that this is no reshaping.
RESHAPE: dict[str, object] = {}


@pytest.mark.parametrize(("headers", "status"), [(SERVICE, 400), (ADMIN, 403), (READER, 403)])
def test_reshaper_is_for_services_alone(configured_app, headers, status):
    app = configured_app("")
    app.post_json("/placement/reshaper", RESHAPE, headers=headers, status=status)


@pytest.mark.parametrize(("headers", "status"), [(SERVICE, 400), (ADMIN, 400), (READER, 403)])
def test_older_defaults_let_administrators_in_too(configured_app, headers, status):
    app = configured_app("[oslo_policy]\nenforce_new_defaults = false\n")
    app.post_json("/placement/reshaper", RESHAPE, headers=headers, status=status)


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("", 403),
        ("project_id=shop", 200),
        ("project_id=other", 403),
        ("project_id=", 403),
        ("project_id=shop&colour=red", 400),
        ("project_id=other&colour=red", 403),
        ("project_id=other&project_id=shop", 200),
        ("project_id=shop&project_id=other", 403),
    ],
)
def test_usages_ask_policy_before_schema(sqlite_app, query, status):
    sqlite_app.get(f"/placement/usages?{query}", headers=READER, status=status)


@pytest.mark.parametrize("headers", [ADMIN, SERVICE])
def test_usages_without_a_project_are_malformed_to_who_may_ask(sqlite_app, headers):
    sqlite_app.get("/placement/usages", headers=headers, status=400)
