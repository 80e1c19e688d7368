# SPDX-License-Identifier: Apache-2.0
"""Errors about values of a wrong type are plain sentences."""

import json
from pathlib import Path

import pytest
from oslo_config import cfg

from placement_sched.cli.main import main
from placement_sched.config.conf import create_conf, read_files
from placement_sched.config.sources import check_number, describe_reason, with_directories
from placement_sched.db.engine import build_database_url
from placement_sched.errors import ConfigurationError
from placement_sched.scheduler.plugins import read_settings

INT_OPTION = cfg.IntOpt("amount", min=1)
FLOAT_OPTION = cfg.FloatOpt("share")
BOOL_OPTION = cfg.BoolOpt("switch")


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        (INT_OPTION, "many", "'many' is not an integer"),
        (INT_OPTION, None, "null is not an integer"),
        (INT_OPTION, [1], "[1] is not an integer"),
        (INT_OPTION, "0", "Should be greater than or equal to 1"),
        (FLOAT_OPTION, "half", "'half' is not a number"),
        (BOOL_OPTION, "maybe", "Unexpected boolean value 'maybe'"),
    ],
)
def test_configuration_error_message_has_no_library_details(option, value, message):
    with pytest.raises((TypeError, ValueError)) as failure:
        option.type([] if value is None else value)
    assert describe_reason(value, failure.value) == message


@pytest.mark.parametrize("text", ["inf", "-inf", "nan"])
def test_option_value_nan_or_infinity_is_rejected(text):
    with pytest.raises(ValueError, match=f"^{text} is not a finite number$"):
        check_number(FLOAT_OPTION, FLOAT_OPTION.type(text))


@pytest.mark.parametrize("value", [1.5, 0.0, 7, "inf", None, [1.0]])
def test_finite_number_or_other_value_of_an_option_is_accepted(value):
    assert check_number(FLOAT_OPTION, value) == value


@pytest.mark.parametrize("kind", [cfg.FloatOpt, cfg.IntOpt])
def test_empty_number_is_valid_only_for_an_option_without_default(kind):
    unset, always = kind("number"), kind("number", default=1)
    assert check_number(unset, unset.type("")) is None
    with pytest.raises(ValueError, match=r"^an empty text is not a number$"):
        check_number(always, always.type(""))


@pytest.fixture
def placement_conf(tmp_path):
    """A placement.conf with a directory next to it."""
    (tmp_path / "placement.conf.d").mkdir()
    path = tmp_path / "placement.conf"
    path.write_text("[api]\nauth_strategy = noauth2\n")
    return path


def add_file_to_directory(placement_conf, name, text):
    path = placement_conf.with_name(f"{placement_conf.name}.d") / name
    path.write_text(text)
    return path


def test_files_of_the_conf_directory_are_read_after_the_file_in_order_of_names(placement_conf):
    second_file, first_file = (
        add_file_to_directory(placement_conf, "20.conf", ""),
        add_file_to_directory(placement_conf, "10.conf", ""),
    )
    add_file_to_directory(placement_conf, "10.conf.bak", "")
    add_file_to_directory(placement_conf, ".#20.conf", "")
    assert with_directories([str(placement_conf)]) == [
        str(placement_conf),
        str(first_file),
        str(second_file),
    ]
    assert with_directories([str(placement_conf), str(first_file)]) == [
        str(placement_conf),
        str(first_file),
        str(second_file),
    ]


def test_database_connection_of_the_last_conf_directory_file_is_used(placement_conf):
    add_file_to_directory(
        placement_conf, "10.conf", "[placement_database]\nconnection = postgresql://u@h/first\n"
    )
    add_file_to_directory(
        placement_conf, "20.conf", "[placement_database]\nconnection = postgresql://u@h/second\n"
    )
    assert (
        build_database_url(read_settings([str(placement_conf)], create_conf())).database == "second"
    )


def test_configuration_without_connection_is_a_one_line_error(placement_conf, monkeypatch, capsys):
    second = add_file_to_directory(placement_conf, "10.conf", "[scheduler]\nmax_attempts = 3\n")
    message = (
        f"[placement_database] connection is not set in {placement_conf}, {second}: name a database"
    )
    with pytest.raises(ConfigurationError) as failure:
        build_database_url(read_settings([str(placement_conf)], create_conf()))
    assert failure.value.detail.startswith(message)
    assert main(["config", "validate", "--config-file", str(placement_conf)]) == 1
    assert f"error: {message}" in capsys.readouterr().out
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", "sqlite:///other.db")
    assert (
        build_database_url(read_settings([str(placement_conf)], create_conf())).database
        == "other.db"
    )


def test_default_database_connection_is_a_local_sqlite_file():
    assert build_database_url(read_settings([], create_conf())).database == "placement_sched.db"


def test_auth_strategy_of_a_conf_directory_file_is_used(placement_conf):
    placement_conf.write_text("")
    add_file_to_directory(
        placement_conf, "keystone.conf", "[keystone_authtoken]\nauth_type = password\n"
    )
    assert read_settings([str(placement_conf)], create_conf()).api.auth_strategy == "keystone"


def test_enabled_filters_of_a_nova_conf_d_file_are_used(tmp_path):
    (tmp_path / "nova.conf.d").mkdir()
    nova = tmp_path / "nova.conf"
    nova.write_text("")
    add_file_to_directory(
        nova, "filters.conf", "[filter_scheduler]\nenabled_filters = ComputeFilter\n"
    )
    settings = read_settings([str(nova)], create_conf())
    assert settings.filter_scheduler.enabled_filters == ["ComputeFilter"]


def test_policy_conf_in_the_conf_directory_is_the_last_file_read(placement_conf, tmp_path):
    add_file_to_directory(
        placement_conf, "policy.conf", f"[oslo_policy]\npolicy_file = {tmp_path}/rules.yaml\n"
    )
    conf = read_files(create_conf(), [str(placement_conf)])
    assert conf.config_file[-1].endswith("policy.conf")


def test_conf_directory_in_the_home_directory_is_not_read(placement_conf, tmp_path, monkeypatch):
    own = tmp_path / ".placement_sched" / "placement_sched.conf.d"
    own.mkdir(parents=True)
    (own / "a.conf").write_text("[scheduler]\nmax_attempts = 9\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    for files in ([], [str(placement_conf)]):
        assert read_settings(files, create_conf()).scheduler.max_attempts == 3


def test_errors_name_the_line_of_the_last_file_in_any_order_of_sections(tmp_path):
    first, last = tmp_path / "a.conf", tmp_path / "b.conf"
    first.write_text("[api]\n[scheduler]\nmax_attempts = 1\n")
    last.write_text("[api]\nauth_strategy = noauth2\n[scheduler]\nmax_attempts =\n\n# x\n")
    with pytest.raises(ConfigurationError) as failure:
        read_settings([str(first), str(last)], create_conf())
    assert str(failure.value.place) == f"{last}:4"


def test_config_validate_names_the_line_of_a_problem_in_a_directory(placement_conf, capsys):
    wrong = add_file_to_directory(placement_conf, "10.conf", "[scheduler]\nmax_atempts = 3\n")
    assert main(["config", "validate", "--config-file", str(placement_conf)]) == 1
    assert (
        f"{wrong}:2: warning: there is no option [scheduler] max_atempts" in capsys.readouterr().out
    )


def test_config_validate_names_the_files_that_were_read(placement_conf, capsys):
    second_file = add_file_to_directory(
        placement_conf, "10.conf", "[placement_database]\nconnection = sqlite:///file.db\n"
    )
    assert main(["config", "validate", "--config-file", str(placement_conf)]) == 0
    assert f"files read: {placement_conf}, {second_file}\n" in capsys.readouterr().err
    assert (
        main(["config", "validate", "--format", "json", "--config-file", str(placement_conf)]) == 0
    )
    output = capsys.readouterr()
    assert json.loads(output.out) == []
    assert f"files read: {placement_conf}, {second_file}\n" in output.err
    assert main(["config", "validate", "--config-dir", str(Path(second_file).parent)]) == 0
    assert f"files read: {second_file}\n" in capsys.readouterr().err


def test_files_of_the_config_dir_option_are_read(placement_conf, tmp_path, capsys):
    folder = tmp_path / "more"
    folder.mkdir()
    (folder / "a.conf").write_text("[scheduler]\nmax_attempts = 4\n")
    (folder / "b.conf").write_text("[scheduler]\nmax_atempts = 5\n")
    (folder / ".c.conf").symlink_to("someone@host.1234")
    order = ("--config-file", str(placement_conf), "--config-dir", str(folder))
    assert main(["config", "validate", *order]) == 1
    assert f"{folder}/b.conf:2: warning: there is no option" in capsys.readouterr().out


def test_missing_config_dir_is_a_one_line_error(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["config", "validate", "--config-dir", str(tmp_path / "none")])
    assert "there is no directory" in capsys.readouterr().err


def test_unreadable_conf_directory_is_reported(tmp_path, monkeypatch):
    (tmp_path / "a.conf.d").mkdir()

    def deny_permission(_self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.iterdir", deny_permission)
    with pytest.raises(ConfigurationError, match=r"a\.conf\.d: Permission denied"):
        with_directories([str(tmp_path / "a.conf")])
