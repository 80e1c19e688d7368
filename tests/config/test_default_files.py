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


def write_files(folder, *names):
    paths = [folder / name for name in names]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return list(map(str, paths))


OWN, PLACEMENT, NOVA = (
    "placement_sched/placement_sched.conf",
    "placement/placement.conf",
    "nova/nova.conf",
)


def test_no_files_are_found_in_an_empty_etc_folder(empty_etc_folder):
    assert find_files(of_nova=True) == []


def test_own_file_is_read_after_the_files_of_openstack(empty_etc_folder):
    files = write_files(empty_etc_folder, PLACEMENT, NOVA, OWN)
    assert find_files(of_nova=True) == files
    assert find_files() == [files[0], files[2]]


def test_configuration_directory_variable_of_placement_is_used(empty_etc_folder, monkeypatch):
    write_files(empty_etc_folder, PLACEMENT)
    (other,) = write_files(empty_etc_folder, "other/placement.conf")
    monkeypatch.setenv("OS_PLACEMENT_CONFIG_DIR", str(empty_etc_folder / "other"))
    assert find_files() == [other]


def test_files_of_the_environment_variable_replace_the_default_files(empty_etc_folder, monkeypatch):
    write_files(empty_etc_folder, PLACEMENT, OWN)
    monkeypatch.setenv("PLACEMENT_SCHED_CONFIG", "a.conf:b.conf")
    assert find_files() == ["a.conf", "b.conf"]
    monkeypatch.setenv("PLACEMENT_SCHED_CONFIG", "")
    assert find_files() == []


@pytest.mark.parametrize(
    ("command", "names"),
    [
        (["db", "version"], [PLACEMENT, OWN]),
        (["nova-scheduler"], [PLACEMENT, NOVA, OWN]),
        (["nova", "sync"], [PLACEMENT, NOVA, OWN]),
        (["db", "version", "--config-file", "mine.conf"], ["mine.conf"]),
    ],
)
def test_commands_read_default_files(empty_etc_folder, monkeypatch, command, names):
    write_files(empty_etc_folder, PLACEMENT, NOVA, OWN)
    arguments = main.parse_arguments(command)
    assert arguments.config_file == [
        n if n == "mine.conf" else str(empty_etc_folder / n) for n in names
    ]


@pytest.mark.parametrize(
    "command", [["db", "version"], ["status", "upgrade", "check"], ["config", "validate"]]
)
def test_check_commands_create_no_database(empty_etc_folder, tmp_path, monkeypatch, command):
    write_files(empty_etc_folder, OWN)
    database = tmp_path / "absent.db"
    text = f"[placement_database]\nconnection = sqlite:///{database}\n"
    empty_etc_folder.joinpath(OWN).write_text(text)
    monkeypatch.chdir(tmp_path)
    main.main(command)
    assert not database.exists()
    assert list(tmp_path.rglob("*.db*")) == []
