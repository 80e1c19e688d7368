# SPDX-License-Identifier: Apache-2.0
"""oslo.policy: what the operator's file changes, which tokens are in scope, what is told of it."""

import logging
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from oslo_policy._checks import registered_checks
from oslo_policy.policy import Check, register

from placement_sched.api import policy as policy_module
from placement_sched.api.auth import Identity
from placement_sched.api.policy import Policy
from placement_sched.app import create_app
from placement_sched.errors import ConfigurationError, Forbidden

LATEST = {"OpenStack-API-Version": "placement latest"}
ADMIN = {**LATEST, "X-Auth-Token": "admin"}
READER = {**LATEST, "X-Auth-Token": "bob:shop", "X-Roles": "reader"}
SERVICE = {**LATEST, "X-Auth-Token": "nova:service", "X-Roles": "service"}


@pytest.fixture(autouse=True)
def moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock on which so much time is between any two looks that files are looked at again."""
    clock = count(0, policy_module.PAUSE)
    monkeypatch.setattr(policy_module, "monotonic", lambda: next(clock))


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


def test_files_are_looked_at_again_after_a_pause(configured_app, config, file, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(policy_module, "monotonic", lambda: now[0])
    app = configured_app(config)
    # What the database leaves beside the file at first is a change of the directory, too.
    for _ in range(3):
        app.get("/placement/traits", headers=READER, status=403)
    file.write_text('"placement:traits:list": "role:reader"\n')
    now[0] += policy_module.PAUSE * 0.9
    app.get("/placement/traits", headers=READER, status=403)
    now[0] += policy_module.PAUSE * 0.2
    app.get("/placement/traits", headers=READER, status=200)


def test_older_file_in_its_place_is_heeded(configured_app, config, file):
    file.write_text("{}\n")
    app = configured_app(config)
    app.get("/placement/traits", headers=READER, status=403)
    other = file.with_name("other")
    other.write_text('"placement:traits:list": "role:reader"\n')
    os.utime(other, (1, 1))
    other.replace(file)
    app.get("/placement/traits", headers=READER, status=200)


def test_file_that_appears_is_heeded_and_forgotten_when_it_goes(configured_app, config, file):
    app = configured_app(config)
    app.get("/placement/traits", headers=READER, status=403)
    file.write_text('"placement:traits:list": "role:reader"\n')
    app.get("/placement/traits", headers=READER, status=200)
    file.unlink()
    app.get("/placement/traits", headers=READER, status=403)
    app.get("/placement/traits", headers=ADMIN, status=200)


def test_directories_of_rules_are_watched_too(configured_app, tmp_path):
    directory = tmp_path / "rules.d"
    app = configured_app(f"[oslo_policy]\npolicy_dirs = {directory}\n")
    app.get("/placement/traits", headers=READER, status=403)
    directory.mkdir()
    (directory / "a.yaml").write_text('"placement:traits:list": "role:reader"\n')
    app.get("/placement/traits", headers=READER, status=200)
    (directory / "b.yaml").write_text('"placement:traits:list": "role:admin"\n')
    app.get("/placement/traits", headers=READER, status=403)
    shutil.rmtree(directory)
    app.get("/placement/traits", headers=SERVICE, status=200)


def test_file_spoilt_while_serving_leaves_the_rules_as_they_were(
    configured_app, config, file, caplog
):
    file.write_text('"placement:traits:list": "role:reader"\n')
    app = configured_app(config)
    file.write_text('"placement:traits:list": [\n')
    for _ in range(3):
        app.get("/placement/traits", headers=READER, status=200)
        app.get("/placement/traits", headers=ADMIN, status=403)
    (told,) = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert f"policy_file {file}" in told
    assert "keeping the previous rules" in told
    file.write_text('"placement:traits:list": "role:admin"\n')
    app.get("/placement/traits", headers=ADMIN, status=200)


@pytest.fixture
def asked() -> Iterator[list[bool]]:
    """Give the answers, to be changed, that a rule ``moody:`` gives, the last first."""
    answers: list[bool] = []

    class Moody(Check):
        def __call__(self, *_arguments):
            return answers.pop()

    register("moody", Moody)
    yield answers
    del registered_checks["moody"]


def test_checks_that_may_ask_others_are_asked_each_time(configured_app, config, file, asked):
    file.write_text('"placement:traits:list": "not (role:admin and moody:today)"\n')
    app = configured_app(config)
    asked[:] = [True, False, True]
    for status in (403, 200, 403):
        app.get("/placement/traits", headers=ADMIN, status=status)


@pytest.mark.parametrize(
    ("rule", "differing"),
    [
        ("user_id:%(user_id)s", {"user_id": "u"}),
        ("project_id:%(project_id)s", {"project_id": "p"}),
        ("role:r", {"roles": ("r",)}),
        ("system_scope:all", {"further": {"system_scope": "all"}}),
        ("service_roles:service", {"further": {"service_roles": ("other", "service")}}),
    ],
)
def test_verdict_of_one_caller_is_not_that_of_another(configured, config, file, rule, differing):
    file.write_text(f'"mine": "{rule}"\n')
    policy = Policy(configured(config), ())
    target = {"user_id": "u", "project_id": "p"}
    whoever = Identity("v", "q", ("s",), {"service_roles": ("other",)})
    for _ in range(2):
        policy.check("mine", replace(whoever, **differing), target)
        with pytest.raises(Forbidden):
            policy.check("mine", whoever, target)


def test_remembered_verdicts_are_bounded(configured, config, file, monkeypatch):
    file.write_text('"mine": "project_id:%(project_id)s"\n')
    monkeypatch.setattr(policy_module, "MOST_VERDICTS", 3)
    policy = Policy(configured(config), ())
    for number in [*range(10), *range(10)]:
        policy.check("mine", Identity("u", f"{number}"), {"project_id": f"{number}"})
        with pytest.raises(Forbidden):
            policy.check("mine", Identity("u", f"{number}"), {"project_id": "other"})
    assert len(policy._read._verdicts) <= 3


@pytest.mark.parametrize("length", [policy_module.LONGEST_QUESTION, 60_000])
def test_verdicts_about_long_queries_are_not_remembered(sqlite_app, length):
    verdicts = sqlite_app.app.services.policy._read._verdicts
    sqlite_app.get("/placement/usages?project_id=short", headers=READER, status=403)
    remembered = len(verdicts)
    for number in range(5):
        query = f"project_id={number}{'x' * length}"
        sqlite_app.get(f"/placement/usages?{query}", headers=READER, status=403)
    assert len(verdicts) == remembered


def test_verdicts_about_callers_of_many_roles_are_not_remembered(configured, config, file):
    file.write_text('"mine": "role:r"\n')
    policy = Policy(configured(config), ())
    for number in range(5):
        roles = ("r", f"{number}", *("role" * 10 for _ in range(500)))
        policy.check("mine", Identity("u", "p", roles), {})
    assert not policy._read._verdicts


def test_questions_that_are_remembered_have_a_limited_number_of_characters(
    configured, config, file, monkeypatch
):
    monkeypatch.setattr(policy_module, "MOST_CHARACTERS", 10_000)
    file.write_text('"mine": "role:r"\n')
    policy = Policy(configured(config), ())
    remembered = set()
    for number in range(9):
        roles = ("r", f"{number}", *("role" * 10 for _ in range(100)))
        for _ in range(2):
            policy.check("mine", Identity("u", "p", roles), {})
        remembered.add(len(policy._read._verdicts))
    assert remembered == {1, 2}


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
        "the policy file changes placement:trait:list, which is not a rule of this service"
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


@pytest.mark.parametrize(
    ("told", "project", "status"),
    [
        ({"X-Project-Id": "other"}, "other", 200),
        ({"X-Project-Id": "other"}, "shop", 403),
        ({"X-Project-Id": ""}, "shop", 403),
        ({"X-User-Id": "eve", "X-Tenant-Id": "other"}, "shop", 200),
        ({"X-User-Domain-Id": "default", "X-Project-Domain-Id": "default"}, "shop", 200),
        ({"OpenStack-System-Scope": "all"}, "shop", 403),
        ({"X-Domain-Id": "default"}, "shop", 403),
    ],
)
def test_headers_tell_project_and_scope_of_a_token_of_nobody(sqlite_app, told, project, status):
    headers = {**READER, **told}
    sqlite_app.get(f"/placement/usages?project_id={project}", headers=headers, status=status)


@pytest.mark.parametrize(
    ("header", "scope"), [("OpenStack-System-Scope", "system"), ("X-Domain-Id", "domain")]
)
@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("/placement/traits", "placement:traits:list"),
        ("/compute/v2.1/os-aggregates", "compute:aggregates:list"),
        ("/scheduler/v1/compute_nodes", "scheduler:compute_nodes:list"),
    ],
)
def test_token_of_no_project_is_out_of_scope_for_the_administrator_too(
    sqlite_app, caplog, header, scope, path, rule
):
    answer = sqlite_app.get(path, headers={**ADMIN, header: "all"}, status=403)
    message = f"The token has {scope} scope; the rule accepts project."
    assert "Policy does not allow" in answer.text
    assert message in answer.text
    assert message in caplog.text


def test_the_project_told_is_the_callers_own(configured_app, config, file):
    file.write_text('"placement:traits:list": "project_id:other and user_id:bob"\n')
    app = configured_app(config)
    app.get("/placement/traits", headers=READER, status=403)
    app.get("/placement/traits", headers={**READER, "X-Project-Id": "other"}, status=200)


def test_the_roles_told_are_those_of_the_administrator_too(sqlite_app):
    told = {**LATEST, "X-Auth-Token": "admin", "X-Roles": "member"}
    sqlite_app.get("/placement/resource_providers", headers=told, status=403)
    sqlite_app.get("/placement/resource_providers", headers={**told, "X-Roles": "admin"})
