# SPDX-License-Identifier: Apache-2.0
"""The JSON file of scheduler options: what it changes, when it is read, and what is refused."""

import json
import logging
import os
from pathlib import Path
from threading import Thread

import pytest

from placement_sched.app import check_parts
from placement_sched.config.watch import FileWatcher
from placement_sched.errors import ConfigurationError
from placement_sched.model.clock import utcnow
from placement_sched.scheduler.live_settings import PAUSE, LiveSettings
from placement_sched.scheduler.live_settings import with_options_file as read
from placement_sched.scheduler.plugins import make_full_conf, plugins_for, read_settings
from tests.conftest import make_settings
from tests.scheduler.test_scheduler import explain, select
from tests.support.scheduling import hosts_of, report, spec

NAME = "[scheduler] json_config_location"
#: More than any pause is long.
LATER = PAUSE * 2


@pytest.fixture
def file(tmp_path) -> Path:
    return tmp_path / "scheduler.json"


def settings_with(file: Path, text: str):
    file.write_text(text)
    overrides = {"scheduler_json_config_location": str(file)}
    return read_settings((), make_full_conf()).with_overrides(overrides)


class Elapsed:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def write(file: Path, text: str) -> None:
    """Write anew, so that it can be told from what was there even within one tick of the clock."""
    there = file.stat().st_mtime_ns if file.exists() else 0
    file.write_text(text)
    os.utime(file, ns=(there + 1, there + 1))


# What it says


@pytest.mark.parametrize(
    ("document", "group", "name", "value"),
    [
        (
            {"filter_scheduler.ram_weight_multiplier": -1},
            "filter_scheduler",
            "ram_weight_multiplier",
            -1.0,
        ),
        ({"ram_weight_multiplier": -1.0}, "filter_scheduler", "ram_weight_multiplier", -1.0),
        (
            {"filter_scheduler": {"ram_weight_multiplier": "-1.0"}},
            "filter_scheduler",
            "ram_weight_multiplier",
            -1.0,
        ),
        ({"scheduler_host_subset_size": 3.0}, "filter_scheduler", "host_subset_size", 3),
        ({"isolated_hosts": ["a", "b"]}, "filter_scheduler", "isolated_hosts", ["a", "b"]),
        ({"isolated_hosts": "a, b"}, "filter_scheduler", "isolated_hosts", ["a", "b"]),
        ({"metrics": {"required": False}}, "metrics", "required", False),
        ({"scheduler.max_attempts": 5}, "scheduler", "max_attempts", 5),
        ({"default_availability_zone": "z"}, "DEFAULT", "default_availability_zone", "z"),
    ],
)
def test_option_of_the_file_wins_under_every_name(file, document, group, name, value):
    found = read(settings_with(file, json.dumps(document)))
    assert getattr(getattr(found.settings, group), name) == value
    assert found.ignored == ()


def test_without_a_file_the_settings_stay_the_very_same():
    settings = read_settings((), make_full_conf())
    assert read(settings).settings is settings
    assert LiveSettings(settings, utcnow).settings() is settings


@pytest.mark.parametrize(
    ("document", "told"),
    [
        (
            {"filter_scheduler.ram_weight_multplier": 1},
            (
                "there is no option 'filter_scheduler.ram_weight_multplier'; "
                "did you mean 'filter_scheduler.ram_weight_multiplier'?"
            ),
        ),
        ({"zzz": 1}, "there is no option 'zzz'"),
        ({"zzz": {"qqq": 1}}, "there is no option 'zzz.qqq'"),
        (
            {"api": {"max_request_body_size": 5000}},
            "'api.max_request_body_size' is not read per request, but when the server starts",
        ),
    ],
)
def test_option_that_changes_nothing_is_told_and_the_others_count(file, document, told):
    text = json.dumps({**document, "scheduler_host_subset_size": 3})
    found = read(settings_with(file, text))
    assert found.ignored == (f"{NAME}: {file}: {told}",)
    assert found.settings.filter_scheduler.host_subset_size == 3


@pytest.mark.parametrize(
    ("text", "told"),
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
        ('{"pci": {"alias": "{"}}', "alias"),
    ],
)
def test_bad_file_is_one_line_that_names_it(file, text, told):
    with pytest.raises(ConfigurationError, match=told) as refused:
        read(settings_with(file, text))
    assert refused.value.detail.startswith(f"{NAME}: {file}: ")
    assert "\n" not in refused.value.detail


def test_absent_file_is_one_line_that_names_it(file):
    settings = settings_with(file, "{}")
    file.unlink()
    with pytest.raises(ConfigurationError) as refused:
        check_parts(settings)
    assert refused.value.detail == f"{NAME}: {file}: No such file or directory"


def test_worker_that_replaces_another_starts_without_a_broken_options_file(file, caplog):
    settings = settings_with(file, "{}")
    file.write_text("{")
    assert LiveSettings(settings, utcnow).settings() is settings
    assert "keeping the previous settings" in caplog.text


# When it is read


@pytest.fixture
def watched(file):
    """Settings of an options file that says 2, with the clock by which it is looked at."""
    elapsed = Elapsed()
    settings = settings_with(file, '{"scheduler_host_subset_size": 2}')
    return LiveSettings(settings, utcnow, elapsed), elapsed


def size(options: LiveSettings) -> int:
    return options.settings().filter_scheduler.host_subset_size


def test_changed_file_is_read_again_after_the_pause(file, watched):
    options, elapsed = watched
    assert size(options) == 2
    write(file, '{"scheduler_host_subset_size": 5}')
    assert size(options) == 2
    elapsed.seconds += LATER
    assert size(options) == 5


def test_unchanged_file_is_not_read_again(watched):
    options, elapsed = watched
    before = options.settings()
    elapsed.seconds += LATER
    assert options.settings() is before


def test_option_that_leaves_the_file_has_its_configured_value_again(file, watched):
    options, elapsed = watched
    write(file, "{}")
    elapsed.seconds += LATER
    assert size(options) == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "it is not JSON"),
        ('{"scheduler_host_subset_size": 0}', "scheduler_host_subset_size"),
        (None, "No such file or directory"),
    ],
)
def test_spoilt_file_keeps_the_old_values_and_says_why_once(file, watched, caplog, text, why):
    options, elapsed = watched
    if text is None:
        file.unlink()
    else:
        write(file, text)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            elapsed.seconds += LATER
            assert size(options) == 2
    (told,) = caplog.messages
    assert told.startswith(f"{NAME}: {file}: ")
    assert why in told
    assert told.endswith("; keeping the previous settings")


def test_mended_file_counts_again(file, watched):
    options, elapsed = watched
    write(file, "{")
    elapsed.seconds += LATER
    options.settings()
    write(file, '{"scheduler_host_subset_size": 7}')
    elapsed.seconds += LATER
    assert size(options) == 7


def test_what_is_passed_over_is_told_in_the_log(file, watched, caplog):
    options, elapsed = watched
    write(file, '{"zzz": 1}')
    elapsed.seconds += LATER
    with caplog.at_level(logging.WARNING):
        options.settings()
    assert caplog.messages == [f"{NAME}: {file}: there is no option 'zzz': it is ignored"]


def test_plugins_of_a_reading_are_made_before_a_request_needs_them(watched):
    options, _ = watched
    made = plugins_for.cache_info().misses
    plugins_for(options.settings(), utcnow)
    assert plugins_for.cache_info().misses == made


def test_file_is_looked_at_no_more_than_once_in_a_pause(watched, monkeypatch):
    options, elapsed = watched
    looks = []
    look = FileWatcher.changed
    monkeypatch.setattr(FileWatcher, "changed", lambda self: looks.append(self) or look(self))
    elapsed.seconds += LATER
    for _ in range(100):
        options.settings()
    assert len(looks) == 1


def test_threads_that_come_while_the_file_is_read_go_on_with_what_it_said(watched):
    options, elapsed = watched
    elapsed.seconds += LATER
    seen = []
    with options._reading:
        asker = Thread(target=lambda: seen.append(size(options)))
        asker.start()
        asker.join(timeout=60)
    assert seen == [2]


# What requests make of it


@pytest.fixture
def cloud(file, sqlite_url, make_app):
    """Three hosts under a scheduler with the file; cn3 has the most memory."""
    file.write_text("{}")
    settings = make_settings(sqlite_url, **{"scheduler.json_config_location": str(file)})
    app = make_app(settings)
    memory = {"cn1": 65536, "cn2": 98304, "cn3": 131072}
    hosts = [report(name, memory_mb=size) for name, size in memory.items()]
    app.post_json("/scheduler/v1/compute_nodes", hosts)
    return app


def say(app, file: Path, document: object) -> None:
    """Have the file say this, and the pause be over."""
    write(file, json.dumps(document))
    app.app.services.scheduler.live._watch._next = 0.0


def test_requests_are_placed_as_the_file_says_and_no_longer(cloud, file):
    assert hosts_of(select(cloud, spec())) == ["cn3"]
    say(cloud, file, {"ram_weight_multiplier": -1.0})
    assert hosts_of(select(cloud, spec())) == ["cn1"]
    say(cloud, file, {})
    assert hosts_of(select(cloud, spec())) == ["cn3"]


def test_explanation_goes_by_the_file_and_its_overrides_win(cloud, file):
    say(cloud, file, {"ram_weight_multiplier": -1.0})
    assert explain(cloud, spec())["hosts"][0]["host"] == "cn1"
    overrides = {"filter_scheduler.ram_weight_multiplier": 1.0}
    assert explain(cloud, spec(), overrides=overrides)["hosts"][0]["host"] == "cn3"


def test_isolated_hosts_of_the_file_are_isolated(cloud, file):
    say(
        cloud,
        file,
        {"scheduler_default_filters": ["IsolatedHostsFilter"], "isolated_hosts": ["cn3"]},
    )
    assert hosts_of(select(cloud, spec())) == ["cn2"]


def test_options_of_a_plugin_that_comes_with_a_change_are_known(tmp_path, monkeypatch):
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
    write(config, "[filter_scheduler]\nenabled_filters = acme_new.New\n[acme_new]\nmost = 9\n")
    live.reload()
    assert live.settings().acme_new.most == 9
    assert live.settings().with_overrides({"acme_new.most": 3}).acme_new.most == 3
