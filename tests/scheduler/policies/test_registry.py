# SPDX-License-Identifier: Apache-2.0
"""Sections of policies: what their lines mean, and which of them are refused."""

import pytest

from placement_sched.errors import ConfigurationError
from placement_sched.scheduler.plugins import make_full_conf, read_settings
from placement_sched.scheduler.policies.registry import policies_for

FILTERS = "filter_scheduler"


@pytest.fixture
def configured(tmp_path):
    """Read a file of this text, with what is to be overridden by a policy named ``dense``."""

    def configured(section: str, more: str = "", name: str = "dense"):
        file = tmp_path / "nova.conf"
        file.write_text(f"{more}\n[scheduler]\npolicies = {name}\n[{name}]\n{section}\n")
        return policies_for(read_settings([str(file)], make_full_conf()))

    return configured


@pytest.mark.parametrize(
    ("line", "group", "option", "value"),
    [
        ("cpu_allocation_ratio = 8.0", "DEFAULT", "cpu_allocation_ratio", 8.0),
        ("ram_weight_multiplier = -1", FILTERS, "ram_weight_multiplier", -1.0),
        ("ram-weight-multiplier = -1", FILTERS, "ram_weight_multiplier", -1.0),
        ("filter_scheduler_ram_weight_multiplier = -1", FILTERS, "ram_weight_multiplier", -1.0),
        ("host_subset_size = 3", FILTERS, "host_subset_size", 3),
        ("scheduler_host_subset_size = 3", FILTERS, "host_subset_size", 3),
        (
            "scheduler_default_filters = CoreFilter, RamFilter",
            FILTERS,
            "enabled_filters",
            ["CoreFilter", "RamFilter"],
        ),
        ("enabled_filters = CoreFilter,\n  RamFilter", FILTERS, "enabled_filters", None),
        ("driver = chance_scheduler", "scheduler", "driver", "chance_scheduler"),
        ("scheduler_driver = chance_scheduler", "scheduler", "driver", "chance_scheduler"),
        ("weight_setting = cpu.percent=1.0", "metrics", "weight_setting", ["cpu.percent=1.0"]),
        ("metrics_required = false", "metrics", "required", False),
        ("forbidden_aggregates = false", None, None, None),
    ],
)
def test_an_option_is_known_by_each_of_its_names(configured, line, group, option, value):
    if group is None:
        with pytest.raises(ConfigurationError, match="there is no option forbidden_aggregates"):
            configured(line).get("dense")
        return
    policy = configured(line).get("dense")
    (override,) = policy.overrides
    assert (override.group, override.option) == (group, option)
    expected = ["CoreFilter", "RamFilter"] if value is None else value
    assert getattr(getattr(policy.settings, group), option) == expected


def test_what_a_section_does_not_set_is_as_in_the_default_configuration(configured):
    more = "[filter_scheduler]\ncpu_weight_multiplier = 5.0"
    policies = configured("ram_weight_multiplier = -1", more)
    assert policies.get("dense").settings.filter_scheduler.cpu_weight_multiplier == 5.0
    assert policies.get("default").settings.filter_scheduler.ram_weight_multiplier == 1.0


@pytest.mark.parametrize(
    ("section", "more", "told"),
    [
        ("ram_weight_multplier = 1", "", "did you mean ram_weight_multiplier?"),
        ("connection = sqlite://", "", "connection is not read per request"),
        ("concurrency = 2", "", "there is no option concurrency"),
        ("ram_weight_multiplier = much", "", "much"),
        ("enabled_filters = CoreFliter", "", "did you mean 'CoreFilter'?"),
        ("driver = chance", "", "did you mean 'chance_scheduler'?"),
        ("weight_classes = nova.scheduler.weights.ram.RAMWeiger", "", "did you mean"),
        (
            "cpu_weight_multiplier = 2",
            "[DEFAULT]\nscheduler_policy_overrides = cpu_allocation_ratio",
            "cpu_weight_multiplier may not be overridden",
        ),
        (
            "cpu_allocation_ratio = 2",
            "[DEFAULT]\nscheduler_policy_overrides = cpu_alocation_ratio",
            "[scheduler] policy_overrides: there is no option cpu_alocation_ratio; did you mean",
        ),
        (
            "cpu_allocation_ratio = 2",
            "[DEFAULT]\nscheduler_policy_overrides = connection",
            "connection is not read per request",
        ),
    ],
)
def test_what_no_policy_can_have_is_one_clear_line(configured, section, more, told):
    with pytest.raises(ConfigurationError) as refused:
        configured(section, more).check()
    assert told in refused.value.detail
    assert "\n" not in refused.value.detail


@pytest.mark.parametrize(
    "line", ["ram_weight_multplier = 1", "connection = x", "ram_weight_multiplier = much"]
)
def test_a_fault_is_told_by_its_line(configured, line):
    with pytest.raises(ConfigurationError, match=r"nova\.conf:5: "):
        configured(f"host_subset_size = 1\n{line}".replace("host_subset_size = 1\n", "")).check()


@pytest.mark.parametrize("name", ["filter_scheduler", "placement", "scheduler"])
def test_a_policy_cannot_be_named_like_a_group_of_options(configured, name):
    with pytest.raises(ConfigurationError, match="is a group of options, and cannot be a policy"):
        configured("", name=name).check()


def test_the_default_policy_is_not_to_be_listed(configured):
    with pytest.raises(ConfigurationError, match="cannot be a policy"):
        configured("", name="default").check()


def test_a_policy_without_a_section_is_refused(tmp_path):
    file = tmp_path / "nova.conf"
    file.write_text("[scheduler]\npolicies = dense, sparse\n[dense]\n")
    policies = policies_for(read_settings([str(file)], make_full_conf()))
    assert policies.get("dense").overrides == ()
    with pytest.raises(ConfigurationError, match=r"there is no section \[sparse\]"):
        policies.check()


def test_without_a_list_every_section_of_the_file_may_be_a_policy(tmp_path):
    file = tmp_path / "nova.conf"
    file.write_text("[dense]\nram_weight_multiplier = -1\n[libvirt]\nvirt_type = kvm\n")
    policies = policies_for(read_settings([str(file)], make_full_conf()))
    policies.check()
    assert policies.get("dense").settings.filter_scheduler.ram_weight_multiplier == -1.0
    with pytest.raises(ConfigurationError, match=r"nova\.conf:4: \[libvirt\]: there is no option"):
        policies.get("libvirt")
    with pytest.raises(ConfigurationError, match="no policy 'sparse'; there are: default, dense"):
        policies.get("sparse")


def test_the_last_line_of_an_option_counts(configured):
    policy = configured("host_subset_size = 2\nscheduler_host_subset_size = 4").get("dense")
    assert [one.value for one in policy.overrides] == ["4"]
    assert policy.settings.filter_scheduler.host_subset_size == 4


def test_a_name_of_several_options_has_to_be_written_with_its_group(configured):
    options = "metrics_required = false"
    assert configured(options).get("dense").settings.metrics.required is False


def test_every_line_of_an_option_that_may_be_repeated_counts(configured):
    lines = [
        "available_filters = nova.scheduler.filters.ram_filter.RamFilter",
        "enabled_filters = RamFilter, CoreFilter",
        "available_filters = nova.scheduler.filters.core_filter.CoreFilter",
    ]
    policy = configured("\n".join(lines)).get("dense")
    paths = [line.partition(" = ")[2] for line in (lines[0], lines[2])]
    assert policy.settings.filter_scheduler.available_filters == paths
    assert {one.option: one.place.line for one in policy.overrides}["available_filters"] == 7


PLUGIN = """
from oslo_config import cfg
from placement_sched.scheduler.filters import BaseHostFilter


class Limit(BaseHostFilter):
    options = (("acme_limits", cfg.IntOpt("most", default=5)),)

    def host_passes(self, host_state, spec_obj):
        return host_state.num_instances < self.settings.acme_limits.most
"""


def test_options_of_a_plugin_that_a_policy_alone_enables_are_known(tmp_path, monkeypatch):
    (tmp_path / "acme_limit.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "nova.conf"
    file.write_text(
        "[scheduler]\npolicies = dense, other\n[acme_limits]\nmost = 4\n"
        "[dense]\nenabled_filters = CoreFilter, acme_limit.Limit\nacme_limits_most = 7\n"
        "[other]\nenabled_filters = acme_limit.Limit\n"
    )
    policies = policies_for(read_settings([str(file)], make_full_conf()))
    policies.check()
    assert policies.get("dense").settings.acme_limits.most == 7
    assert policies.get("other").settings.acme_limits.most == 4


@pytest.mark.parametrize(
    ("ratio", "told"),
    [
        ("nan", "is not a finite number"),
        ("inf", "is not a finite number"),
        ("1e9", "is not a ratio"),
    ],
)
def test_a_ratio_that_is_none_is_refused(configured, ratio, told):
    with pytest.raises(ConfigurationError, match=f"cpu_allocation_ratio: .* {told}"):
        configured(f"cpu_allocation_ratio = {ratio}").check()
