# SPDX-License-Identifier: Apache-2.0
"""Fleet files with entries that no request could create are rejected, also in a dry run."""

import pytest

from placement_sched.errors import Error
from tests.support.clouds import uuid_of

UUID_1, UUID_2 = uuid_of("one"), uuid_of("two")


def assert_fleet_load_fails(cloud, text, message):
    state = cloud.state
    for dry_run in (True, False):
        with pytest.raises(Error) as refused:
            cloud.load(text, dry_run=dry_run)
        assert str(refused.value).startswith(message)
        assert cloud.state == state


def test_duplicate_service_uuid_in_a_fleet_file_is_rejected(cloud):
    hosts = "hosts: [{host: sv1, vcpus: 1, memory_mb: 1}]\n"
    cloud.load(f"{hosts}services: [{{host: sv1, uuid: {UUID_1}, status: disabled}}]")
    for text, message in (
        (f"services:\n- {{host: sv2, uuid: {UUID_1}}}", "f.yaml:2:21: uuid "),
        (
            f"services:\n- {{host: sv1, uuid: {UUID_1}}}\n- {{host: sv2, uuid: {UUID_1}}}",
            "f.yaml:3:21: uuid ",
        ),
        (
            f"services: [{{host: sv3, uuid: {UUID_2}}},\n {{host: sv4, uuid: {UUID_2}}}]",
            "f.yaml:2:20: uuid ",
        ),
    ):
        assert_fleet_load_fails(cloud, text, message)


@pytest.mark.all_databases
@pytest.mark.parametrize(
    ("names", "loaded_text", "text"),
    [
        (("pr", "PR"), "", "providers:\n- {name: pr}\n- {name: other}\n- {name: PR}"),
        (
            ("pr ", "pr"),
            "providers: [{name: 'pr '}]",
            "providers:\n- name: q\n  providers:\n  - {name: pr}",
        ),
        (
            ("pr", "PR"),
            f"providers: [{{name: pr}}, {{name: other, uuid: {UUID_1}}}]",
            f"providers:\n- {{name: PR, uuid: {UUID_1}}}",
        ),
        (
            ("h1", "H1"),
            "",
            "hosts:\n- {host: h1, vcpus: 1, memory_mb: 1}\n- {host: H1, vcpus: 1, memory_mb: 1}",
        ),
    ],
)
def test_provider_names_that_the_database_considers_equal_are_rejected(
    cloud, names, loaded_text, text
):
    """MariaDB and MySQL ignore case, MariaDB also a blank at the end."""
    cloud.load(loaded_text)
    if cloud.considers_equal(*names):
        assert_fleet_load_fails(cloud, text, "Conflicting resource provider name: ")
    else:
        cloud.load(text)
        assert cloud.load(text) == []


def test_provider_loop_in_a_fleet_file_is_rejected_with_its_name(cloud):
    cloud.load("providers: [{name: loopa, providers: [{name: loopb}]}]")
    assert_fleet_load_fails(
        cloud,
        "providers:\n- name: loopb\n  providers:\n  - {name: loopa}",
        "f.yaml:4:5: provider loopa below loopb: ",
    )


@pytest.mark.parametrize(
    ("section", "entry"),
    [
        ("server_groups", "{name: web, policy: affinity}"),
        ("aggregates", "{name: gpu}"),
        ("hosts", "{host: cn1, vcpus: 1, memory_mb: 1}"),
        ("services", "{host: cn1}"),
        ("instances", f"{{uuid: {UUID_1}}}"),
    ],
)
def test_fleet_load_rejects_objects_that_are_synced_from_nova(sqlite_cloud, section, entry):
    novas = {"api_database.connection": "mysql+pymysql://nova@db/nova_api"}
    sqlite_cloud.settings = sqlite_cloud.settings.with_overrides(novas)
    text = f"traits: [CUSTOM_A]\n{section}:\n- {entry}\n"
    with pytest.raises(Error) as refused:
        sqlite_cloud.load(text)
    message = str(refused.value)
    assert message.startswith("f.yaml:2:1: ")
    assert "read from nova's databases ([api_database] connection)" in message
    harmless = f"traits: [CUSTOM_A]\nflavors: [{{name: m1, vcpus: 1, memory_mb: 1}}]\n{section}: []"
    assert sqlite_cloud.load(harmless)
