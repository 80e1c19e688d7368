# SPDX-License-Identifier: Apache-2.0
"""Sections of policies, their options and errors."""

import pytest

from placement_sched.errors import ConfigurationError
from placement_sched.scheduler.policies.registry import get_policies
from tests.support.states import read_settings_text

FILTER_SCHEDULER_GROUP = "filter_scheduler"


@pytest.fixture
def read_policies(tmp_path):
    """Return a function that reads a file and returns the overrides of the policy ``dense``."""

    def read_policies(section: str, more: str = "", name: str = "dense"):
        text = f"{more}\n[scheduler]\npolicies = {name}\n[{name}]\n{section}\n"
        return get_policies(read_settings_text(tmp_path, text))

    return read_policies


@pytest.mark.parametrize(
    ("line", "group", "option", "value"),
    [
        ("cpu_allocation_ratio = 8.0", "DEFAULT", "cpu_allocation_ratio", 8.0),
        ("ram_weight_multiplier = -1", FILTER_SCHEDULER_GROUP, "ram_weight_multiplier", -1.0),
        ("ram-weight-multiplier = -1", FILTER_SCHEDULER_GROUP, "ram_weight_multiplier", -1.0),
        (
            "filter_scheduler_ram_weight_multiplier = -1",
            FILTER_SCHEDULER_GROUP,
            "ram_weight_multiplier",
            -1.0,
        ),
        ("host_subset_size = 3", FILTER_SCHEDULER_GROUP, "host_subset_size", 3),
        ("scheduler_host_subset_size = 3", FILTER_SCHEDULER_GROUP, "host_subset_size", 3),
        (
            "scheduler_default_filters = CoreFilter, RamFilter",
            FILTER_SCHEDULER_GROUP,
            "enabled_filters",
            ["CoreFilter", "RamFilter"],
        ),
        (
            "enabled_filters = CoreFilter,\n  RamFilter",
            FILTER_SCHEDULER_GROUP,
            "enabled_filters",
            None,
        ),
        ("driver = chance_scheduler", "scheduler", "driver", "chance_scheduler"),
        ("scheduler_driver = chance_scheduler", "scheduler", "driver", "chance_scheduler"),
        ("weight_setting = cpu.percent=1.0", "metrics", "weight_setting", ["cpu.percent=1.0"]),
        ("metrics_required = false", "metrics", "required", False),
        ("forbidden_aggregates = false", None, None, None),
    ],
)
def test_policy_section_accepts_each_name_of_an_option(read_policies, line, group, option, value):
    if group is None:
        with pytest.raises(ConfigurationError, match="there is no option forbidden_aggregates"):
            read_policies(line).get("dense")
        return
    policy = read_policies(line).get("dense")
    assert list(policy.overrides) == [(group, option)]
    expected = ["CoreFilter", "RamFilter"] if value is None else value
    assert getattr(getattr(policy.settings, group), option) == expected


def test_option_missing_in_a_policy_section_has_its_global_value(read_policies):
    more = "[filter_scheduler]\ncpu_weight_multiplier = 5.0"
    lines = "ram_weight_multiplier = -1\nhost_subset_size = 2\nscheduler_host_subset_size = 4"
    policies = read_policies(lines, more)
    policy = policies.get("dense")
    assert policy.settings.filter_scheduler.cpu_weight_multiplier == 5.0
    assert policies.get("default").settings.filter_scheduler.ram_weight_multiplier == 1.0
    # The last line of an option counts.
    assert [lines[-1].value for lines in policy.overrides.values()] == ["-1", "4"]
    assert policy.settings.filter_scheduler.host_subset_size == 4


@pytest.mark.parametrize(
    ("section", "more", "expected"),
    [
        ("ram_weight_multplier = 1", "", "Did you mean ram_weight_multiplier?"),
        ("connection = sqlite://", "", "connection is not read per request"),
        ("concurrency = 2", "", "there is no option concurrency"),
        ("ram_weight_multiplier = much", "", "much"),
        ("enabled_filters = CoreFliter", "", "Did you mean 'CoreFilter'?"),
        ("driver = chance", "", "Did you mean 'chance_scheduler'?"),
        ("weight_classes = nova.scheduler.weights.ram.RAMWeiger", "", "Did you mean"),
        ("cpu_allocation_ratio = nan", "", "is not a finite number"),
        ("cpu_allocation_ratio = inf", "", "is not a finite number"),
        ("cpu_allocation_ratio = 1e9", "", "is not between 0 and"),
        ("cpu_weight_multiplier = 2", "cpu_allocation_ratio", "may not be overridden"),
        (
            "cpu_allocation_ratio = 2",
            "cpu_alocation_ratio",
            "no option cpu_alocation_ratio. Did you",
        ),
        ("cpu_allocation_ratio = 2", "connection", "connection is not read per request"),
    ],
)
def test_error_of_a_policy_section_is_one_line_with_its_place(
    read_policies, section, more, expected
):
    overrides = f"[DEFAULT]\nscheduler_policy_overrides = {more}" if more else ""
    with pytest.raises(ConfigurationError) as error:
        read_policies(section, overrides).check()
    assert expected in error.value.detail
    assert "\n" not in error.value.detail
    if section.startswith(("ram_weight", "connection")):
        assert "nova.conf:5: " in error.value.detail


@pytest.mark.parametrize("name", ["filter_scheduler", "placement", "scheduler", "default"])
def test_policy_may_not_have_the_name_of_a_group_of_options(read_policies, name):
    with pytest.raises(ConfigurationError, match="cannot be a policy"):
        read_policies("", name=name).check()


def test_policy_without_a_section_is_an_error(tmp_path):
    text = "[scheduler]\npolicies = dense, sparse\n[dense]\n"
    policies = get_policies(read_settings_text(tmp_path, text))
    assert policies.get("dense").overrides == {}
    with pytest.raises(ConfigurationError, match=r"there is no section \[sparse\]"):
        policies.check()


def test_any_valid_section_is_a_policy_if_no_policies_are_listed(tmp_path):
    text = "[dense]\nram_weight_multiplier = -1\n[libvirt]\nvirt_type = kvm\n"
    policies = get_policies(read_settings_text(tmp_path, text))
    policies.check()
    assert policies.get("dense").settings.filter_scheduler.ram_weight_multiplier == -1.0
    with pytest.raises(ConfigurationError, match=r"nova\.conf:4: \[libvirt\]: there is no option"):
        policies.get("libvirt")
    with pytest.raises(ConfigurationError, match=r"no policy 'sparse'\. There are: default, dense"):
        policies.get("sparse")


def test_policy_option_on_several_lines_has_the_values_of_all_lines(read_policies):
    lines = [
        "available_filters = nova.scheduler.filters.ram_filter.RamFilter",
        "enabled_filters = RamFilter, CoreFilter",
        "available_filters = nova.scheduler.filters.core_filter.CoreFilter",
    ]
    policy = read_policies("\n".join(lines)).get("dense")
    paths = [line.partition(" = ")[2] for line in (lines[0], lines[2])]
    assert policy.settings.filter_scheduler.available_filters == paths
    assert policy.overrides["filter_scheduler", "available_filters"][-1].place.line == 7


FILTER_PLUGIN_TEXT = """
from oslo_config import cfg
from placement_sched.scheduler.filters import BaseHostFilter


class Limit(BaseHostFilter):
    options = (("acme_limits", cfg.IntOpt("most", default=5)),)

    def host_passes(self, host_state, spec_obj):
        return host_state.num_instances < self.settings.acme_limits.most
"""


def test_plugin_option_has_the_value_of_the_policy_section(tmp_path, monkeypatch):
    (tmp_path / "acme_limit.py").write_text(FILTER_PLUGIN_TEXT)
    monkeypatch.syspath_prepend(tmp_path)
    text = (
        "[scheduler]\npolicies = dense, other\n[acme_limits]\nmost = 4\n"
        "[dense]\nenabled_filters = CoreFilter, acme_limit.Limit\nacme_limits_most = 7\n"
        "[other]\nenabled_filters = acme_limit.Limit\n"
    )
    policies = get_policies(read_settings_text(tmp_path, text))
    policies.check()
    assert policies.get("dense").settings.acme_limits.most == 7
    assert policies.get("other").settings.acme_limits.most == 4
