# SPDX-License-Identifier: Apache-2.0
"""Configuration files that commands and servers read if none is named."""

import pytest

from placement_sched.cli import main
from placement_sched.config import sources
from placement_sched.config.sources import find_files


@pytest.fixture
def empty_etc_folder(tmp_path, monkeypatch):
    """Return an empty directory in place of ``/etc``."""
    monkeypatch.setattr(sources, "_ETC", tmp_path)
    monkeypatch.delenv(sources.FILES, raising=False)
    monkeypatch.delenv(sources.PLACEMENT_DIRECTORY, raising=False)
    return tmp_path


def create_empty_files(folder, *names):
    paths = [folder / name for name in names]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return list(map(str, paths))


OWN_CONF, PLACEMENT_CONF, NOVA_CONF = (
    "placement_sched/placement_sched.conf",
    "placement/placement.conf",
    "nova/nova.conf",
)


def test_no_configuration_files_are_found_in_an_empty_etc_folder(empty_etc_folder):
    assert find_files(with_nova_conf=True) == []


def test_own_configuration_file_is_read_after_files_of_openstack(empty_etc_folder):
    files = create_empty_files(empty_etc_folder, PLACEMENT_CONF, NOVA_CONF, OWN_CONF)
    assert find_files(with_nova_conf=True) == files
    assert find_files() == [files[0], files[2]]


def test_config_dir_variable_of_placement_replaces_etc_placement(empty_etc_folder, monkeypatch):
    create_empty_files(empty_etc_folder, PLACEMENT_CONF)
    (other,) = create_empty_files(empty_etc_folder, "other/placement.conf")
    monkeypatch.setenv("OS_PLACEMENT_CONFIG_DIR", str(empty_etc_folder / "other"))
    assert find_files() == [other]


def test_files_of_the_config_variable_replace_the_default_files(empty_etc_folder, monkeypatch):
    create_empty_files(empty_etc_folder, PLACEMENT_CONF, OWN_CONF)
    monkeypatch.setenv("PLACEMENT_SCHED_CONFIG", "a.conf:b.conf")
    assert find_files() == ["a.conf", "b.conf"]
    monkeypatch.setenv("PLACEMENT_SCHED_CONFIG", "")
    assert find_files() == []


@pytest.mark.parametrize(
    ("command", "names"),
    [
        (["db", "version"], [PLACEMENT_CONF, OWN_CONF]),
        (["nova-scheduler"], [PLACEMENT_CONF, NOVA_CONF, OWN_CONF]),
        (["nova", "sync"], [PLACEMENT_CONF, NOVA_CONF, OWN_CONF]),
        (["db", "version", "--config-file", "mine.conf"], ["mine.conf"]),
    ],
)
def test_commands_read_default_configuration_files(empty_etc_folder, monkeypatch, command, names):
    create_empty_files(empty_etc_folder, PLACEMENT_CONF, NOVA_CONF, OWN_CONF)
    arguments = main.parse_arguments(command)
    assert arguments.config_file == [
        n if n == "mine.conf" else str(empty_etc_folder / n) for n in names
    ]


@pytest.mark.parametrize(
    "command", [["db", "version"], ["status", "upgrade", "check"], ["config", "validate"]]
)
def test_check_commands_create_no_database(empty_etc_folder, tmp_path, monkeypatch, command):
    create_empty_files(empty_etc_folder, OWN_CONF)
    database = tmp_path / "absent.db"
    text = f"[placement_database]\nconnection = sqlite:///{database}\n"
    empty_etc_folder.joinpath(OWN_CONF).write_text(text)
    monkeypatch.chdir(tmp_path)
    main.main(command)
    assert not database.exists()
    assert list(tmp_path.rglob("*.db*")) == []
