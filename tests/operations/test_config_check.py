# SPDX-License-Identifier: Apache-2.0
"""Scheduling policies in ``config validate`` and at the start of a server."""

from importlib.metadata import EntryPoint

import pytest

from placement_sched.app import check_parts
from placement_sched.cli.main import main
from placement_sched.errors import ConfigurationError
from placement_sched.model import extension
from placement_sched.scheduler.plugins import make_full_conf, read_settings

pytestmark = pytest.mark.slow

POLICY_CONF = "[scheduler]\npolicies = dense\n"


@pytest.fixture(autouse=True)
def set_database_url(monkeypatch):
    """Set the required option of the database."""
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", "sqlite:///file.db")


@pytest.fixture
def validate_conf(tmp_path, capsys):
    """Return a function that validates a text and returns the status and the output."""

    def validate_conf(text: str, *arguments: str) -> tuple[int, str]:
        file = tmp_path / "a.conf"
        file.write_text(text)
        status = main(["config", "validate", "--config-file", str(file), *arguments])
        return status, capsys.readouterr().out.replace(str(file), "a.conf")

    return validate_conf


@pytest.mark.parametrize(
    "text",
    [
        f"{POLICY_CONF}[dense]\nram_weight_multiplier = -1.0\nenabled_filters = CoreFilter\n",
        f"{POLICY_CONF}[Dense]\ncpu-allocation-ratio = 8.0\nmetrics_weight_multiplier = 2.0\n",
        f"{POLICY_CONF}[dense]\n",
        f"{POLICY_CONF}[dense]\nfilter_scheduler.disk_weight_multiplier = 0\n",
        "[scheduler]\npolicies = one, two\n[one]\nmax_attempts = 1\n[two]\nmax_attempts = 2\n",
        # Sections that are not listed, because an aggregate may name them.
        "[dense]\ncpu_allocation_ratio = 8.0\n[sparse]\ncpu_allocation_ratio = 1.0\n",
        "[scheduler]\npolicy_overrides = host_subset_size\n[dense]\nhost_subset_size = 2\n",
    ],
)
def test_sections_of_policies_with_policy_options_are_valid(validate_conf, text):
    assert validate_conf(text) == (0, "the configuration is valid\n")


INVALID_POLICY_TEXTS = [
    (
        f"{POLICY_CONF}[dense]\n# more\nram_wieght_multiplier = 1\n",
        "5: error: [dense]: there is no option ram_wieght_multiplier. Did you mean ram_weight",
    ),
    (
        f"{POLICY_CONF}[dense]\nconnection = sqlite://\n",
        "4: error: [dense]: connection is not read per request: a policy cannot set it\n",
    ),
    (
        f"{POLICY_CONF}policy_overrides=max_attempts\n[dense]\nmax_attempts=1\nhost_subset_size=2\n",
        "6: error: [dense]: host_subset_size may not be overridden: it is not among [scheduler]",
    ),
    (
        f"{POLICY_CONF}policy_overrides = max_atempts\n[dense]\nmax_attempts = 1\n",
        "3: error: [scheduler] policy_overrides: there is no option max_atempts. Did you mean",
    ),
    (
        f"{POLICY_CONF}[dense]\nhost_subset_size = few\n",
        "4: error: [dense] host_subset_size has a wrong value: 'few' is not an integer\n",
    ),
    (POLICY_CONF, "2: error: [scheduler] policies: there is no section [dense]\n"),
    *(
        (
            f"[scheduler]\npolicies = {name}\n[oslo_policy]\n",
            f"2: error: [scheduler] policies: '{name.lower()}' is a group of options, and cannot",
        )
        for name in ("api", "oslo_policy", "Default")
    ),
    (
        f"{POLICY_CONF}[dense]\nhost_subset_size = 1\nenabled_filters = CoreFliter\n",
        "5: error: [dense]: [filter_scheduler] enabled_filters: unknown filter 'CoreFliter'. Did",
    ),
    (
        f"{POLICY_CONF}[dense]\nweight_classes = no.such.Weigher\n",
        "4: error: [dense]: [filter_scheduler] weight_classes: 'no.such.Weigher' cannot be",
    ),
    (
        "[scheduler]\npolicy_selection = hint, tennant\n",
        "error: [scheduler] policy_selection: unknown selector 'tennant'. Did you mean 'tenant'?\n",
    ),
]


def test_pci_alias_that_no_request_can_use_is_a_warning(validate_conf):
    status, printed = validate_conf(f"{POLICY_CONF}[dense]\nalias = x\n[pci]\nalias = []\n")
    assert status == 0
    assert [line.partition(" it is not ")[0] for line in printed.splitlines()] == [
        "warning: [pci] alias '[]':",
        "warning: [dense]: [pci] alias 'x':",
    ]


@pytest.mark.parametrize(("text", "error"), INVALID_POLICY_TEXTS)
def test_each_policy_error_is_one_line_with_its_line_number(validate_conf, text, error):
    status, printed = validate_conf(text)
    assert status == 1
    assert printed.removeprefix("a.conf:").startswith(error)
    assert printed.count("\n") == 1


def test_server_does_not_start_with_invalid_policies(tmp_path, capsys):
    file = tmp_path / "a.conf"
    file.write_text(INVALID_POLICY_TEXTS[0][0])
    with pytest.raises(ConfigurationError):  # otherwise ``serve`` would not end
        check_parts(read_settings([str(file)], make_full_conf()))
    assert main(["serve", "--config-file", str(file), "--port", "0"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"placement-sched: {file}:5: [dense]: there is no option ram_wieght")


def test_all_wrong_lines_of_each_policy_are_reported(validate_conf):
    status, printed = validate_conf(
        "[scheduler]\npolicies = one, two\n[one]\nx = 1\nhost_subset_size = y\n[two]\nz = 1\n"
    )
    assert status == 1
    lines = [line.split()[0] for line in printed.splitlines()]
    assert lines == ["a.conf:4:", "a.conf:5:", "a.conf:7:"]


@pytest.mark.parametrize("listed", ["policies = one, two\n", ""])
def test_invalid_policy_overrides_are_reported_once(validate_conf, listed):
    text = f"[scheduler]\npolicy_overrides = x\n{listed}[one]\n[two]\n"
    _, printed = validate_conf(text)
    assert printed.startswith("a.conf:2: error: [scheduler] policy_overrides: there is no option x")
    assert printed.count("\n") == 1


def test_invalid_section_not_listed_as_policy_is_a_warning(validate_conf):
    status, printed = validate_conf("[dense]\nhost_subset_size = 1\nram_wieght_multiplier = 1\n")
    assert status == 0
    assert printed == (
        "a.conf:1: warning: unknown group [dense], and it cannot be a policy: a.conf:3: "
        "[dense]: there is no option ram_wieght_multiplier. Did you mean ram_weight_multiplier?\n"
    )


def test_section_that_cannot_be_a_policy_is_a_warning(validate_conf):
    _, printed = validate_conf(
        f"{POLICY_CONF}[dense]\nmax_attempts = 2\n[sparse]\nmax_attempts = 1\n"
    )
    assert printed == ("a.conf:5: warning: unknown group [sparse], its options are not used\n")


FILTER_WITH_AMBIGUOUS_OPTION = """
from oslo_config import cfg
from placement_sched.scheduler.filters import BaseHostFilter


class Filter(BaseHostFilter):
    options = (
        ("acme", cfg.FloatOpt("ram_weight_multiplier", default=1.0)),
        ("acme", cfg.StrOpt("key", default="x", secret=True)),
    )

    def host_passes(self, host_state, spec_obj):
        return True
"""


def test_policy_option_of_several_groups_is_an_error_without_a_group(run_command, tmp_path):
    """In another process, because the options of a plugin stay registered."""
    (tmp_path / "acme_halls_options.py").write_text(FILTER_WITH_AMBIGUOUS_OPTION)
    (tmp_path / "a.conf").write_text(
        "[placement_database]\nconnection = sqlite:///file.db\n"
        "[filter_scheduler]\navailable_filters = acme_halls_options.Filter\n"
        f"enabled_filters = Filter\n{POLICY_CONF}[dense]\nram_weight_multiplier = 2.0\n"
        "acme_ram_weight_multiplier = 2.0\nacme.ram_weight_multiplier = 2.0\n"
    )
    checked = run_command("config", "validate", "--config-file", "a.conf", PYTHONPATH=str(tmp_path))
    assert checked.stdout.replace(f"{tmp_path}/", "") == (
        "a.conf:9: error: [dense]: ram_weight_multiplier is the name of several options: "
        "acme_ram_weight_multiplier, filter_scheduler_ram_weight_multiplier\n"
    )


def test_unknown_name_of_a_disabled_extension_is_an_error(validate_conf):
    status, text = validate_conf("[DEFAULT]\ndisabled_extensions = consol\n")
    assert status == 1
    assert "[DEFAULT] disabled_extensions: no extension consol is installed" in text
    assert "console" in text


def test_disabled_extension_may_lack_its_package(validate_conf, monkeypatch):
    point = EntryPoint("acme", "no_such_acme:EXTENSION", extension.ENTRY_POINT_GROUP)
    monkeypatch.setattr(extension, "entry_points", lambda **_: [point])
    extension.load_entry_points.cache_clear()
    try:
        result = validate_conf("[DEFAULT]\ndisabled_extensions = acme\n")
    finally:
        extension.load_entry_points.cache_clear()
    assert result == (0, "the configuration is valid\n")
