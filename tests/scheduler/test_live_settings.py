# SPDX-License-Identifier: Apache-2.0
"""The JSON file of scheduler options."""

import json
import logging
from pathlib import Path
from threading import Thread

import pytest

from placement_sched.app import check_parts
from placement_sched.errors import ConfigurationError
from placement_sched.model.clock import utcnow
from placement_sched.scheduler.live_settings import LiveSettings
from placement_sched.scheduler.live_settings import with_options_file as read
from placement_sched.scheduler.plugins import get_plugins, make_full_conf, read_settings
from tests.support.scheduling import (
    explain_request,
    get_selected_hosts,
    make_report,
    make_spec,
    select_hosts,
)
from tests.support.states import read_settings_text

OPTIONS_FILE_OPTION = "[scheduler] json_config_location"


@pytest.fixture
def options_file(tmp_path) -> Path:
    return tmp_path / "scheduler.json"


def write_options_file_and_read_settings(options_file: Path, text: str):
    options_file.write_text(text)
    overrides = {"scheduler_json_config_location": str(options_file)}
    return read_settings((), make_full_conf()).with_overrides(overrides)


RAM_MULTIPLIER_OPTION = "filter_scheduler.ram_weight_multiplier"


@pytest.mark.parametrize(
    ("document", "option", "value"),
    [
        ({RAM_MULTIPLIER_OPTION: -1}, RAM_MULTIPLIER_OPTION, -1.0),
        ({"ram_weight_multiplier": -1.0}, RAM_MULTIPLIER_OPTION, -1.0),
        ({"filter_scheduler": {"ram_weight_multiplier": "-1.0"}}, RAM_MULTIPLIER_OPTION, -1.0),
        ({"scheduler_host_subset_size": 3.0}, "filter_scheduler.host_subset_size", 3),
        ({"isolated_hosts": ["a", "b"]}, "filter_scheduler.isolated_hosts", ["a", "b"]),
        ({"isolated_hosts": "a, b"}, "filter_scheduler.isolated_hosts", ["a", "b"]),
        ({"metrics": {"required": False}}, "metrics.required", False),
        ({"scheduler.max_attempts": 5}, "scheduler.max_attempts", 5),
        ({"default_availability_zone": "z"}, "DEFAULT.default_availability_zone", "z"),
    ],
)
def test_options_file_accepts_each_name_of_an_option(options_file, document, option, value):
    result = read(write_options_file_and_read_settings(options_file, json.dumps(document)))
    group, name = option.split(".")
    assert getattr(getattr(result.settings, group), name) == value
    assert result.ignored == ()


def test_settings_without_an_options_file_do_not_change():
    settings = read_settings((), make_full_conf())
    assert read(settings).settings is settings
    assert LiveSettings(settings, utcnow).get_settings() is settings


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            {"filter_scheduler.ram_weight_multplier": 1},
            (
                "there is no option 'filter_scheduler.ram_weight_multplier'. "
                "Did you mean 'filter_scheduler.ram_weight_multiplier'?"
            ),
        ),
        ({"zzz": 1}, "there is no option 'zzz'. placement-sched config sample lists them"),
        (
            {"zzz": {"qqq": 1}},
            "there is no option 'zzz.qqq'. placement-sched config sample lists them",
        ),
        (
            {"api": {"max_request_body_size": 5000}},
            "'api.max_request_body_size' is not read per request, but when the server starts",
        ),
    ],
)
def test_ineffective_option_is_reported_and_the_other_options_apply(
    options_file, document, expected
):
    text = json.dumps({**document, "scheduler_host_subset_size": 3})
    result = read(write_options_file_and_read_settings(options_file, text))
    assert result.ignored == (f"{OPTIONS_FILE_OPTION}: {options_file}: {expected}",)
    assert result.settings.filter_scheduler.host_subset_size == 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "it is not JSON: .*line 1 column 2"),
        ("", "it is not JSON: "),
        ("[1]", "it is not a JSON object of options and values"),
        ('{"ram_weight_multiplier": null}', "ram_weight_multiplier: must be a string"),
        ('{"a": {"b": {"c": 1}}}', "a.b: must be a string"),
        ('{"ram_weight_multiplier": "much"}', "ram_weight_multiplier: 'much' is not a number"),
        ('{"scheduler_host_subset_size": [1]}', "the option takes a single value, not a list"),
        ('{"scheduler_host_subset_size": 0}', "scheduler_host_subset_size: "),
        ('{"scheduler_default_filters": "NoFilter"}', "unknown filter 'NoFilter'"),
        ('{"scheduler_driver": "acme.Driver"}', "'acme.Driver' is neither a shipped class"),
    ],
)
def test_error_for_an_invalid_options_file_is_one_line_with_its_path(options_file, text, expected):
    with pytest.raises(ConfigurationError, match=expected) as error:
        read(write_options_file_and_read_settings(options_file, text))
    assert error.value.detail.startswith(f"{OPTIONS_FILE_OPTION}: {options_file}: ")
    assert "\n" not in error.value.detail


def test_missing_or_broken_options_file_is_reported_at_the_start(options_file, caplog):
    settings = write_options_file_and_read_settings(options_file, "{")
    assert LiveSettings(settings, utcnow).get_settings() is settings
    assert "the previous settings remain in effect" in caplog.text
    options_file.unlink()
    with pytest.raises(ConfigurationError) as error:
        check_parts(settings)
    assert error.value.detail == f"{OPTIONS_FILE_OPTION}: {options_file}: No such file or directory"


@pytest.fixture
def live_settings(options_file, tmp_path):
    """Settings of a configuration file and of an options file with the value 2."""
    options_file.write_text('{"scheduler_host_subset_size": 2}')
    text = f"[scheduler]\njson_config_location = {options_file}\n"
    return LiveSettings(read_settings_text(tmp_path, text))


def read_subset_size(options: LiveSettings) -> int:
    return options.get_settings().filter_scheduler.host_subset_size


def test_changed_options_file_is_read_again_at_a_reload(options_file, live_settings, caplog):
    before = live_settings.get_settings()
    options_file.write_text('{"scheduler_host_subset_size": 5, "zzz": 1}')
    assert live_settings.get_settings() is before
    live_settings.reload()
    assert read_subset_size(live_settings) == 5
    assert (
        f"ignored: {OPTIONS_FILE_OPTION}: {options_file}: there is no option 'zzz'. "
        "placement-sched config sample lists them" in caplog.messages
    )
    options_file.write_text("{}")
    live_settings.reload()
    assert read_subset_size(live_settings) == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "it is not JSON"),
        ('{"scheduler_host_subset_size": 0}', "scheduler_host_subset_size"),
        (None, "No such file or directory"),
    ],
)
def test_broken_options_file_keeps_the_old_values_and_logs_the_reason(
    options_file, live_settings, caplog, text, reason
):
    options_file.unlink()
    if text is not None:
        options_file.write_text(text)
    with caplog.at_level(logging.WARNING):
        live_settings.reload()
    assert read_subset_size(live_settings) == 2
    (message,) = caplog.messages
    assert message.startswith(f"{OPTIONS_FILE_OPTION}: {options_file}: ")
    assert reason in message
    assert message.endswith("(the previous settings remain in effect)")


def test_plugins_are_created_before_a_request_needs_them(live_settings):
    settings = live_settings.get_settings()
    created = list(settings.derived.values())
    assert get_plugins(settings, utcnow) in created


def test_server_that_shows_a_file_reads_no_file_again(options_file, live_settings):
    settings = live_settings.configured.with_overrides({"placement_database.shown_at": 0})
    live_settings.configured = settings
    options_file.write_text('{"scheduler_host_subset_size": 5}')
    live_settings.reload()
    assert live_settings.configured is settings
    assert read_subset_size(live_settings) == 2


@pytest.mark.parametrize("text", ["{", '{"scheduler_host_subset_size": 5}'])
def test_worker_begins_with_the_settings_of_its_parent(options_file, live_settings, text):
    options_file.write_text(text)
    live_settings.get_settings().derived.clear()
    worker = LiveSettings(live_settings.configured, parent=live_settings)
    assert read_subset_size(worker) == 2
    test_plugins_are_created_before_a_request_needs_them(worker)
    options_file.write_text('{"scheduler_host_subset_size": 7}')
    worker.reload()
    assert read_subset_size(worker) == 7


def test_threads_use_the_old_settings_while_the_options_file_is_read(
    options_file, live_settings, monkeypatch
):
    monkeypatch.setattr(live_settings, "_reloads", -1)  # a reload is due
    options_file.write_text("{}")
    seen = []
    with live_settings._reading:
        asker = Thread(target=lambda: seen.append(read_subset_size(live_settings)))
        asker.start()
        asker.join(timeout=60)
    assert seen == [2]
    assert read_subset_size(live_settings) == 1


@pytest.fixture
def cloud(options_file, sqlite_url, make_app, tmp_path):
    """Three hosts, and a scheduler with an options file. cn3 has the most memory."""
    options_file.write_text("{}")
    text = (
        f"[scheduler]\njson_config_location = {options_file}\n[api]\nauth_strategy = noauth2\n"
        f"[placement_database]\nconnection = {sqlite_url}\n"
    )
    app = make_app(read_settings_text(tmp_path, text))
    memory = {"cn1": 65536, "cn2": 98304, "cn3": 131072}
    hosts = [make_report(name, memory_mb=size) for name, size in memory.items()]
    app.post_json("/scheduler/v1/compute_nodes", hosts)
    return app


def write_options_file_and_reload(app, options_file: Path, document: object) -> None:
    options_file.write_text(json.dumps(document))
    app.app.services.scheduler.live.reload()


def test_requests_use_the_options_of_the_json_file(cloud, options_file):
    assert get_selected_hosts(select_hosts(cloud, make_spec())) == ["cn3"]
    write_options_file_and_reload(cloud, options_file, {"ram_weight_multiplier": -1.0})
    assert get_selected_hosts(select_hosts(cloud, make_spec())) == ["cn1"]
    assert explain_request(cloud, make_spec())["hosts"][0]["host"] == "cn1"
    overrides = {"filter_scheduler.ram_weight_multiplier": 1.0}
    assert explain_request(cloud, make_spec(), overrides=overrides)["hosts"][0]["host"] == "cn3"
    isolated = ["IsolatedHostsFilter"]
    write_options_file_and_reload(
        cloud, options_file, {"scheduler_default_filters": isolated, "isolated_hosts": ["cn3"]}
    )
    assert get_selected_hosts(select_hosts(cloud, make_spec())) == ["cn2"]
    write_options_file_and_reload(cloud, options_file, {})
    assert get_selected_hosts(select_hosts(cloud, make_spec())) == ["cn3"]


def test_options_of_a_new_plugin_are_registered_by_a_reload(tmp_path, monkeypatch):
    (tmp_path / "acme_new.py").write_text(
        "from oslo_config import cfg\n"
        "from placement_sched.scheduler.filters import BaseHostFilter\n\n\n"
        "class New(BaseHostFilter):\n"
        '    options = (("acme_new", cfg.IntOpt("most", default=5)),)\n\n'
        "    def host_passes(self, host_state, spec_obj):\n"
        "        return True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    config = tmp_path / "nova.conf"
    config.write_text("")
    live = LiveSettings(read_settings([str(config)], make_full_conf()))
    config.write_text("[filter_scheduler]\nenabled_filters = acme_new.New\n[acme_new]\nmost = 9\n")
    live.reload()
    assert live.get_settings().acme_new.most == 9
    assert live.get_settings().with_overrides({"acme_new.most": 3}).acme_new.most == 3


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[filter_scheduler]\nweight_classes = no.Weigher\n", "'no.Weigher' cannot be imported"),
        ("[filter_scheduler]\nenabled_filters = NoFilter\n", "unknown filter 'NoFilter'"),
    ],
    ids=["weigher", "filter"],
)
def test_reload_keeps_settings_if_requests_could_not_use_the_new_settings(
    tmp_path, caplog, text, reason
):
    config = tmp_path / "nova.conf"
    config.write_text("")
    live = LiveSettings(read_settings([str(config)], make_full_conf()))
    previous = live.get_settings()
    config.write_text(text)
    live.reload()
    assert live.get_settings() is previous
    (message,) = [entry for entry in caplog.messages if "previous settings remain" in entry]
    assert reason in message
    config.write_text("[filter_scheduler]\nhost_subset_size = 3\n")
    live.reload()
    assert read_subset_size(live) == 3
    config.write_text("")
    live.reload()  # other tests share oslo.config's objects
