# SPDX-License-Identifier: Apache-2.0
"""oslo.policy: the operator's file, the scope of tokens, and logged problems."""

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

LATEST_HEADERS = {"OpenStack-API-Version": "placement latest"}
ADMIN_HEADERS = {**LATEST_HEADERS, "X-Auth-Token": "admin"}
READER_HEADERS = {**LATEST_HEADERS, "X-Auth-Token": "bob:shop", "X-Roles": "reader"}
SERVICE_HEADERS = {**LATEST_HEADERS, "X-Auth-Token": "nova:service", "X-Roles": "service"}


@pytest.fixture(autouse=True)
def advancing_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Advance the clock at each reading, so that every request checks the files for changes."""
    clock = count(0, policy_module.PAUSE)
    monkeypatch.setattr(policy_module, "monotonic", lambda: next(clock))


@pytest.fixture
def rules_file(tmp_path: Path) -> Path:
    return tmp_path / "rules.yaml"


@pytest.fixture
def config_text(rules_file: Path) -> str:
    return f"[oslo_policy]\npolicy_file = {rules_file}\n"


def test_policy_file_changes_only_the_rules_in_it(make_configured_app, config_text, rules_file):
    paths = {
        "placement:resource_providers:list": "/placement/resource_providers",
        "os_compute_api:os-aggregates:index": "/compute/v2.1/os-aggregates",
        "scheduler:compute_nodes:list": "/scheduler/v1/compute_nodes",
    }
    rules_file.write_text("".join(f'"{rule}": "role:reader"\n' for rule in paths))
    app = make_configured_app(config_text)
    for path in paths.values():
        app.get(path, headers=READER_HEADERS, status=200)
        app.get(path, headers=ADMIN_HEADERS, status=403)
    app.get("/placement/traits", headers=READER_HEADERS, status=403)
    app.get("/placement/traits", headers=ADMIN_HEADERS, status=200)


def test_changed_base_rule_changes_all_policy_rules_referring_to_it(
    make_configured_app, config_text, rules_file
):
    rules_file.write_text('"admin_or_service_api": "role:reader"\n')
    app = make_configured_app(config_text)
    for path in ("/placement/resource_providers", "/placement/resource_classes"):
        app.get(path, headers=READER_HEADERS, status=200)
        app.get(path, headers=ADMIN_HEADERS, status=403)


@pytest.mark.parametrize("seconds", [10, -1_000_000], ids=["later", "earlier"])
def test_policy_file_with_another_modification_time_is_reloaded(
    make_configured_app, config_text, rules_file, seconds
):
    """An operator may also move an older file to the place of the policy file."""
    rules_file.write_text("{}\n")
    app = make_configured_app(config_text)
    app.get("/placement/traits", headers=READER_HEADERS, status=403)
    time = rules_file.stat().st_mtime + seconds
    other = rules_file.with_name("other")
    other.write_text('"placement:traits:list": "role:reader"\n')
    os.utime(other, (time, time))
    other.replace(rules_file)
    app.get("/placement/traits", headers=READER_HEADERS, status=200)


def test_policy_files_are_checked_for_changes_only_after_an_interval(
    make_configured_app, config_text, rules_file, monkeypatch
):
    now = [100.0]
    monkeypatch.setattr(policy_module, "monotonic", lambda: now[0])
    app = make_configured_app(config_text)
    # At first the database creates files in the directory, which count as changes.
    for _ in range(3):
        app.get("/placement/traits", headers=READER_HEADERS, status=403)
    rules_file.write_text('"placement:traits:list": "role:reader"\n')
    now[0] += policy_module.PAUSE * 0.9
    app.get("/placement/traits", headers=READER_HEADERS, status=403)
    now[0] += policy_module.PAUSE * 0.2
    app.get("/placement/traits", headers=READER_HEADERS, status=200)


def test_new_policy_file_is_in_effect_until_removed(make_configured_app, config_text, rules_file):
    app = make_configured_app(config_text)
    app.get("/placement/traits", headers=READER_HEADERS, status=403)
    rules_file.write_text('"placement:traits:list": "role:reader"\n')
    app.get("/placement/traits", headers=READER_HEADERS, status=200)
    rules_file.unlink()
    app.get("/placement/traits", headers=READER_HEADERS, status=403)
    app.get("/placement/traits", headers=ADMIN_HEADERS, status=200)


def test_changes_of_files_in_policy_directories_take_effect(make_configured_app, tmp_path):
    directory = tmp_path / "rules.d"
    app = make_configured_app(f"[oslo_policy]\npolicy_dirs = {directory}\n")
    app.get("/placement/traits", headers=READER_HEADERS, status=403)
    directory.mkdir()
    (directory / "a.yaml").write_text('"placement:traits:list": "role:reader"\n')
    app.get("/placement/traits", headers=READER_HEADERS, status=200)
    (directory / "b.yaml").write_text('"placement:traits:list": "role:admin"\n')
    app.get("/placement/traits", headers=READER_HEADERS, status=403)
    shutil.rmtree(directory)
    app.get("/placement/traits", headers=SERVICE_HEADERS, status=200)


def test_policy_rules_stay_in_effect_if_their_file_becomes_invalid(
    make_configured_app, config_text, rules_file, caplog
):
    rules_file.write_text('"placement:traits:list": "role:reader"\n')
    app = make_configured_app(config_text)
    rules_file.write_text('"placement:traits:list": [\n')
    for _ in range(3):
        app.get("/placement/traits", headers=READER_HEADERS, status=200)
        app.get("/placement/traits", headers=ADMIN_HEADERS, status=403)
    (message,) = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert f"policy_file {rules_file}" in message
    assert "the previous rules remain in effect" in message
    rules_file.write_text('"placement:traits:list": "role:admin"\n')
    app.get("/placement/traits", headers=ADMIN_HEADERS, status=200)


@pytest.fixture
def verdicts_of_external_check() -> Iterator[list[bool]]:
    """Verdicts of the rule ``changing:``. A test changes the list, whose last item counts."""
    responses: list[bool] = []

    class CheckWithListedVerdicts(Check):
        def __call__(self, *_arguments):
            return responses.pop()

    register("changing", CheckWithListedVerdicts)
    yield responses
    del registered_checks["changing"]


def test_verdicts_of_external_policy_checks_are_not_cached(
    make_configured_app, config_text, rules_file, verdicts_of_external_check
):
    rules_file.write_text('"placement:traits:list": "not (role:admin and changing:today)"\n')
    app = make_configured_app(config_text)
    verdicts_of_external_check[:] = [True, False, True]
    for status in (403, 200, 403):
        app.get("/placement/traits", headers=ADMIN_HEADERS, status=status)


@pytest.mark.parametrize(
    ("rule", "differing"),
    [
        ("user_id:%(user_id)s", {"user_id": "u"}),
        ("project_id:%(project_id)s", {"project_id": "p"}),
        ("role:r", {"roles": ("r",)}),
        ("system_scope:all", {"other_credentials": {"system_scope": "all"}}),
        ("service_roles:service", {"other_credentials": {"service_roles": ("other", "service")}}),
    ],
)
def test_policy_verdicts_are_cached_per_caller(
    make_configured_settings, config_text, rules_file, rule, differing
):
    rules_file.write_text(f'"mine": "{rule}"\n')
    policy = Policy(make_configured_settings(config_text), ())
    target = {"user_id": "u", "project_id": "p"}
    whoever = Identity("v", "q", ("s",), {"service_roles": ("other",)})
    for _ in range(2):
        policy.check("mine", replace(whoever, **differing), target)
        with pytest.raises(Forbidden):
            policy.check("mine", whoever, target)


def test_policy_verdict_cache_has_a_maximum_size(
    make_configured_settings, config_text, rules_file, monkeypatch
):
    rules_file.write_text('"mine": "project_id:%(project_id)s"\n')
    monkeypatch.setattr(policy_module, "MAX_VERDICTS", 3)
    policy = Policy(make_configured_settings(config_text), ())
    for number in [*range(10), *range(10)]:
        policy.check("mine", Identity("u", f"{number}"), {"project_id": f"{number}"})
        with pytest.raises(Forbidden):
            policy.check("mine", Identity("u", f"{number}"), {"project_id": "other"})
    assert len(policy._read._verdicts) <= 3


def test_verdicts_about_long_queries_are_not_cached(sqlite_app):
    for length in [policy_module.MAX_KEY_CHARACTERS, 60_000]:
        verdicts = sqlite_app.app.services.policy._read._verdicts
        sqlite_app.get("/placement/usages?project_id=short", headers=READER_HEADERS, status=403)
        remembered = len(verdicts)
        for number in range(5):
            query = f"project_id={number}{'x' * length}"
            sqlite_app.get(f"/placement/usages?{query}", headers=READER_HEADERS, status=403)
        assert len(verdicts) == remembered, length


def test_verdicts_about_callers_with_many_roles_are_not_cached(
    make_configured_settings, config_text, rules_file
):
    rules_file.write_text('"mine": "role:r"\n')
    policy = Policy(make_configured_settings(config_text), ())
    for number in range(5):
        roles = ("r", f"{number}", *("role" * 10 for _ in range(500)))
        policy.check("mine", Identity("u", "p", roles), {})
    assert not policy._read._verdicts


def test_policy_yaml_next_to_the_configuration_is_found(make_configured_app, tmp_path):
    (tmp_path / "policy.yaml").write_text('"placement:traits:list": "role:reader"\n')
    make_configured_app("").get("/placement/traits", headers=READER_HEADERS, status=200)


def test_policy_rule_can_use_the_project_of_the_query(make_configured_app, config_text, rules_file):
    rules_file.write_text('"placement:usages": "role:auditor or project_id:%(project_id)s"\n')
    app = make_configured_app(config_text)
    member = {**READER_HEADERS, "X-Roles": "member"}
    auditor = {**READER_HEADERS, "X-Roles": "auditor"}
    app.get("/placement/usages?project_id=shop", headers=member, status=200)
    app.get("/placement/usages?project_id=other", headers=member, status=403)
    app.get("/placement/usages?project_id=other", headers=auditor, status=200)


def test_unreadable_policy_file_is_reported_at_start(
    make_configured_settings, config_text, rules_file
):
    for text in ['"a": [', "just a sentence\n", '"a": "role:b"\n "c": "d"\n']:
        rules_file.write_text(text)
        with pytest.raises(ConfigurationError, match=r"policy_file .*rules\.yaml"):
            create_app(make_configured_settings(config_text))


def test_missing_policy_file_keeps_the_defaults_and_is_logged(
    make_configured_app, config_text, caplog
):
    app = make_configured_app(config_text)
    app.get("/placement/traits", headers=SERVICE_HEADERS, status=200)
    assert "there is no policy file" in caplog.text


def test_unknown_policy_rule_is_reported(make_configured_app, config_text, rules_file, caplog):
    rules_file.write_text('"placement:trait:list": "@"\n"mine": "role:a"\n')
    make_configured_app(config_text)
    message = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert message == [
        "the policy file changes placement:trait:list, which is not a rule of this service"
    ]


#: An invalid body: permitted callers get 400.
INVALID_RESHAPER_BODY: dict[str, object] = {}


@pytest.mark.parametrize(
    ("text", "admin_status"),
    [("", 403), ("[oslo_policy]\nenforce_new_defaults = false\n", 400)],
    ids=["new defaults", "deprecated defaults"],
)
def test_reshaper_requires_the_service_role_by_new_defaults(
    make_configured_app, text, admin_status
):
    app = make_configured_app(text)
    for headers, status in (
        (SERVICE_HEADERS, 400),
        (ADMIN_HEADERS, admin_status),
        (READER_HEADERS, 403),
    ):
        app.post_json("/placement/reshaper", INVALID_RESHAPER_BODY, headers=headers, status=status)


def test_forbidden_usages_request_with_an_invalid_query_is_403(sqlite_app):
    for query, status in [
        ("", 403),
        ("project_id=shop", 200),
        ("project_id=other", 403),
        ("project_id=", 403),
        ("project_id=shop&colour=red", 400),
        ("project_id=other&colour=red", 403),
        ("project_id=other&project_id=shop", 200),
        ("project_id=shop&project_id=other", 403),
    ]:
        sqlite_app.get(f"/placement/usages?{query}", headers=READER_HEADERS, status=status)


def test_permitted_usages_request_without_a_project_is_400(sqlite_app):
    for headers in [ADMIN_HEADERS, SERVICE_HEADERS]:
        sqlite_app.get("/placement/usages", headers=headers, status=400)


def test_noauth2_project_id_and_scope_headers_decide_which_usages_are_permitted(sqlite_app):
    for caller, project, status in [
        ({"X-Project-Id": "other"}, "other", 200),
        ({"X-Project-Id": "other"}, "shop", 403),
        ({"X-Project-Id": ""}, "shop", 403),
        ({"X-User-Id": "eve", "X-Tenant-Id": "other"}, "shop", 200),
        ({"X-User-Domain-Id": "default", "X-Project-Domain-Id": "default"}, "shop", 200),
        ({"OpenStack-System-Scope": "all"}, "shop", 403),
        ({"X-Domain-Id": "default"}, "shop", 403),
    ]:
        headers = {**READER_HEADERS, **caller}
        sqlite_app.get(f"/placement/usages?project_id={project}", headers=headers, status=status)


def test_system_or_domain_token_is_out_of_scope_even_for_administrators(sqlite_app, caplog):
    paths = ("/placement/traits", "/compute/v2.1/os-aggregates", "/scheduler/v1/compute_nodes")
    for header, scope in (("OpenStack-System-Scope", "system"), ("X-Domain-Id", "domain")):
        for path in paths:
            caplog.clear()
            response = sqlite_app.get(path, headers={**ADMIN_HEADERS, header: "all"}, status=403)
            message = f"The token has {scope} scope, but the rule accepts project."
            assert "Policy does not allow" in response.text, path
            assert message in response.text, path
            assert message in caplog.text, path


def test_noauth2_policy_rules_compare_the_project_and_user_of_the_headers(
    make_configured_app, config_text, rules_file
):
    rules_file.write_text('"placement:traits:list": "project_id:other and user_id:bob"\n')
    app = make_configured_app(config_text)
    app.get("/placement/traits", headers=READER_HEADERS, status=403)
    app.get("/placement/traits", headers={**READER_HEADERS, "X-Project-Id": "other"}, status=200)


def test_noauth2_role_headers_apply_to_the_admin_token(sqlite_app):
    headers = {**LATEST_HEADERS, "X-Auth-Token": "admin", "X-Roles": "member"}
    sqlite_app.get("/placement/resource_providers", headers=headers, status=403)
    sqlite_app.get("/placement/resource_providers", headers={**headers, "X-Roles": "admin"})


@pytest.mark.parametrize(
    ("rules", "warns"),
    [
        ('"project_reader_api": "role:auditor"\n', True),
        ('"project_reader_api": "role:reader and project_id:%(project_id)s"\n', False),
        ('"admin_api": "role:boss"\n', False),
        ('"context_is_admin": "role:boss"\n', False),
    ],
)
def test_helper_rule_of_placement_that_changes_the_compute_api_is_a_warning(
    make_configured_app, config_text, rules_file, caplog, rules, warns
):
    rules_file.write_text(rules)
    make_configured_app(config_text)
    message = "the policy file changes project_reader_api, a helper rule of placement, and with it "
    assert any(each.startswith(message) for each in caplog.messages) == warns
    assert any("os_compute_api:flavors" in each for each in caplog.messages) == warns
