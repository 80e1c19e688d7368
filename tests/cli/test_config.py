# SPDX-License-Identifier: Apache-2.0
"""``config sample`` and ``config validate``."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from placement_sched.cli.main import main
from tests.support.empty_databases import empty_database

pytestmark = pytest.mark.slow

VALID = "the configuration is valid\n"


@pytest.fixture
def validate(tmp_path, monkeypatch, capsys):
    """Return a function that validates a text and returns the status and the output."""
    for variable in ("OS_API__AUTH_STRATEGY", "OS_PLACEMENT_DATABASE__CONNECTION"):
        monkeypatch.delenv(variable, raising=False)

    def validate(text: str, *arguments: str) -> tuple[int, str]:
        file = tmp_path / "a.conf"
        file.write_text(text)
        if re.search("^connection =", text, re.MULTILINE) is None:
            monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", "sqlite:///file.db")
        status = main(["config", "validate", "--config-file", str(file), *arguments])
        return status, capsys.readouterr().out.replace(str(file), "a.conf")

    return validate


@pytest.fixture
def print_sample(capsys) -> str:
    assert main(["config", "sample"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    "line",
    [
        "[placement_database]",
        "#connection = <None>",
        "#auth_strategy = noauth2",
        "#max_attempts = 3",
        "#ram_weight_multiplier = 1.0",
        "#enable_isolated_aggregate_filtering = false",
        "[keystone_authtoken]",
        "[oslo_policy]",
        "[notifications]",
        "[oslo_messaging_notifications]",
        "[oslo_messaging_rabbit]",
        "#control_exchange = nova",
        "#notification_format = unversioned",
        "#debug = false",
    ],
)
def test_sample_has_options_of_core_plugins_and_libraries(print_sample, line):
    assert line in print_sample.splitlines()


def test_sample_sets_no_option(print_sample):
    written = [line for line in print_sample.splitlines() if line and line[0] not in "#["]
    assert written == []


def test_sample_is_valid(print_sample, validate):
    assert validate(print_sample) == (0, "the configuration is valid\n")


def test_sample_with_all_defaults_set_is_valid(print_sample, validate):
    written = "\n".join(
        line[1:] if line.startswith("#") and line[1:2].isalpha() and " = " in line else line
        for line in print_sample.splitlines()
        if "<None>" not in line
    )
    status, printed = validate(written)
    # oslo.messaging's sample may have deprecated options.
    usual = re.compile(
        r"a.conf:\d+: warning: \[oslo_messaging_rabbit\] \w+ will be removed.*"
        r"|the configuration is valid"
    )
    assert status == 0
    assert [line for line in printed.splitlines() if not usual.fullmatch(line)] == []


def test_standby_urls_are_reported_as_ignored(validate):
    place = "postgresql://u:p@db/placement"
    text = f"[placement_database]\nconnection = {place}\nslave_connection = {place}\n"
    status, printed = validate(text)
    assert status == 0
    assert printed.startswith(
        "a.conf:3: warning: [placement_database] slave_connection is ignored: "
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[schedular]\n\nmax_attempts = 3\nmax_placement_results = 2\n",
            "a.conf:1: error: unknown group [schedular]; did you mean [scheduler]?\n",
        ),
        (
            "[scheduler]\nmax_atempts = 3\n",
            (
                "a.conf:2: error: there is no option [scheduler] max_atempts; "
                "did you mean max_attempts?\n"
            ),
        ),
        (
            "[scheduler]\nhost_subset_size = 3\n",
            (
                "a.conf:2: error: there is no option [scheduler] host_subset_size; "
                "it exists in [filter_scheduler]\n"
            ),
        ),
        (
            "[scheduler]\nmax_attempts = many\n",
            (
                "a.conf:2: error: [scheduler] max_attempts has a wrong value: "
                "'many' is not an integer\n"
            ),
        ),
        (
            "[scheduler]\nmax_attempts = 0\n",
            (
                "a.conf:2: error: [scheduler] max_attempts has a wrong value: "
                "Should be greater than or equal to 1\n"
            ),
        ),
        (
            "[filter_scheduler]\nram_weight_multiplier = inf\n",
            (
                "a.conf:2: error: [filter_scheduler] ram_weight_multiplier has a wrong value: "
                "inf is not a finite number\n"
            ),
        ),
        (
            (
                "# a comment\n[filter_scheduler]\nenabled_filters = ComputeFilter,\n  AllHosts\n"
                "[scheduler]\nmax_attempts = x\n"
            ),
            (
                "a.conf:6: error: [scheduler] max_attempts has a wrong value: "
                "'x' is not an integer\n"
            ),
        ),
        (
            "[filter_scheduler]\nenabled_filters = ComputeFilter,RamFiltr\n",
            "error: [filter_scheduler] enabled_filters: unknown filter 'RamFiltr'",
        ),
        (
            "[filter_scheduler]\nweight_classes = no.such.Weigher\n",
            "error: [filter_scheduler] weight_classes: 'no.such.Weigher' cannot be imported",
        ),
        (
            '[pci]\nalias = {"name": "nic",\n  "vendor_id": "8086"}\n',
            "error: [pci] alias 'nic': it must have vendor_id and product_id\n",
        ),
        (
            "[placement_database]\nconnection = oracle://x/y\n",
            "error: [placement_database] connection: 'oracle' is not supported",
        ),
        ("[scheduler\n", "a.conf:1: error: Invalid section (must end with ])\n"),
        ("[scheduler]\nnonsense\n", "a.conf:2: error: No ':' or '=' found in assignment\n"),
        (
            "[keystone_authtoken]\nauth_type = nonsense\n",
            "a.conf:2: error: [keystone_authtoken] auth_type nonsense is not installed\n",
        ),
        (
            "[metrics]\nweight_seting = x\n",
            (
                "a.conf:2: error: there is no option [metrics] weight_seting; "
                "did you mean weight_setting?\n"
            ),
        ),
        (
            "[neutron]\nauth_type = nonsense\n",
            "a.conf:2: error: [neutron] auth_type nonsense is not installed",
        ),
        (
            "[neutron]\nauth_type = password\n",
            "error: [neutron]: Auth plugin requires parameters which were",
        ),
        (
            "[neutron]\nendpoint_overide = x\n",
            "a.conf:2: error: there is no option [neutron] endpoint_overide;",
        ),
    ],
)
def test_error_is_one_line_with_its_place(validate, text, message):
    status, printed = validate(text)
    assert status == 1
    assert printed.startswith(message)
    assert printed.count("\n") == 1


def test_errors_are_printed_in_order_of_lines(validate):
    _, printed = validate("[api]\nfoo = 1\nbar = 2\n[nowhere]\nx = 1\n[scheduler]\ny = 1\n")
    assert [line.partition(": ")[0] for line in printed.splitlines()] == [
        "a.conf:2",
        "a.conf:3",
        "a.conf:4",
        "a.conf:7",
    ]


def test_option_of_another_service_is_a_warning(validate):
    status, printed = validate(
        "[DEFAULT]\ncompute_driver = libvirt.LibvirtDriver\n"
        "[cinder]\ncatalog_info = volumev3\nos_region_name = x\n"
        "[placement]\nauth_type = password\ncafile = /x\n"
        "[metrics]\nweight_setting = cpu.percent=1.0\nrequired = true\n"
        "[pci]\nreport_in_placement = true\n[scheduler]\nworkers = 2\n"
        "[filter_scheduler]\npci_weight_multiplier = 1.0\n"
        "[workarounds]\nenable_numa_live_migration = true\n"
    )
    assert status == 0
    assert printed.splitlines() == [
        "a.conf:2: warning: there is no option [DEFAULT] compute_driver here, so it is not used",
        "a.conf:3: warning: unknown group [cinder], its options are not used",
        "a.conf:7: warning: there is no option [placement] auth_type here, so it is not used",
        "a.conf:8: warning: there is no option [placement] cafile here, so it is not used",
        (
            "a.conf:13: warning: there is no option [pci] report_in_placement here, "
            "so it is not used"
        ),
        (
            "a.conf:19: warning: there is no option [workarounds] enable_numa_live_migration here, "
            "so it is not used"
        ),
    ]


@pytest.mark.parametrize("auth_type", ["<None>", "nope"])
def test_unknown_auth_type_is_reported_once(run, auth_type):
    refused = run("config", "validate", OS_KEYSTONE_AUTHTOKEN__AUTH_TYPE=auth_type)
    assert refused.stdout == (
        "environment OS_KEYSTONE_AUTHTOKEN__AUTH_TYPE: error: "
        f"[keystone_authtoken] auth_type {auth_type} is not installed\n"
    )
    assert refused.stderr == "files read: none\n"


def test_missing_file_is_reported_by_name(run):
    refused = run("db", "version", "--config-file", "a.conf", "--config-file", "b.conf")
    assert refused.stderr == "placement-sched: a.conf: No such file or directory\n"


def test_deprecated_name_is_a_warning(validate):
    status, printed = validate(
        "[keystone_authtoken]\nauth_type = password\ntenant-name = x\n"
        "auth_url = http://127.0.0.1:5000\nusername = placement\npassword = secret\n"
    )
    assert status == 0
    assert printed == (
        "a.conf:3: warning: [keystone_authtoken] tenant-name is a deprecated name of "
        "[keystone_authtoken] project_name\n"
    )


def test_deprecated_name_is_reported_once(run, tmp_path):
    connection = "[placement_database]\nconnection = sqlite:///file.db\n"
    (tmp_path / "nova.conf").write_text(f"{connection}[DEFAULT]\nscheduler_host_subset_size = 2\n")
    checked = run("config", "validate", "--config-file", "nova.conf")
    assert checked.stdout.count("scheduler_host_subset_size") == 1
    assert checked.stderr == "files read: nova.conf\n"


def test_options_of_the_keystone_plugin_are_accepted(validate):
    text = "[keystone_authtoken]\nauth_type = password\nauth_url = http://x\npassword = y\n"
    assert validate(text) == (0, "the configuration is valid\n")


#: The options of nova's networking guide that this service does not use.
NEUTRON = """\
[neutron]
auth_url = http://controller:5000
auth_type = password
project_domain_name = Default
user_domain_name = Default
region_name = RegionOne
project_name = service
username = neutron
password = secret
cafile = /etc/ssl/ca.pem
timeout = 5
http_retries = 2
"""


def test_neutron_section_of_nova_conf_is_accepted(validate):
    assert validate(NEUTRON) == (0, "the configuration is valid\n")
    status, printed = validate(
        f"{NEUTRON}service_metadata_proxy = true\nmetadata_proxy_shared_secret = x\n"
        "ovs_bridge = br-int\nphysnets = a,b\ndefault_floating_pool = x\n"
    )
    assert status == 0
    assert printed.count(" here, so it is not used\n") == printed.count("\n") == 5


def test_messaging_sections_of_nova_conf_are_accepted(validate):
    text = (
        "[DEFAULT]\ntransport_url = rabbit://u:p@bus:5672/\nhost = ctl1\n"
        "[notifications]\nnotification_format = both\n"
        "[oslo_messaging_notifications]\ndriver = messagingv2\ntopics = notifications,audit\n"
        "[oslo_messaging_rabbit]\nrabbit_ha_queues = true\n"
    )
    assert validate(text) == (0, "the configuration is valid\n")


_BUS = "[oslo_messaging_notifications]\n"


@pytest.mark.parametrize(
    ("text", "status", "message"),
    [
        (
            f"{_BUS}driver = mesagingv2\n",
            1,
            "error: [oslo_messaging_notifications] driver: unknown driver 'mesagingv2'; there",
        ),
        (
            f"{_BUS}driver = messagingv2\ntransport_url = rabit://bus/\n",
            1,
            "error: [oslo_messaging_notifications] transport_url: Failed to load transport driver",
        ),
        (
            "[notifications]\nnotification_format = json\n",
            1,
            "a.conf:2: error: [notifications] notification_format has a wrong value: ",
        ),
        (
            "[oslo_messaging_amqp]\nidle_timeout = 3\n",
            0,
            "a.conf:1: warning: unknown group [oslo_messaging_amqp], its options are",
        ),
    ],
)
def test_invalid_message_bus_is_reported(validate, text, status, message):
    exit_status, printed = validate(text)
    assert (exit_status, printed[: len(message)]) == (status, message)
    assert printed.count("\n") == 1


def test_invalid_secret_is_not_printed(validate):
    _, printed = validate("[keystone_authtoken]\nmemcache_secret_key = a\nauth_type = nope\n")
    assert "memcache_secret_key" not in printed


def test_json_has_file_and_line(validate):
    status, printed = validate("[api]\nauth_stratgy = 1\n", "--format", "json")
    (problem,) = json.loads(printed)
    assert status == 1
    assert problem == {
        "severity": "error",
        "file": "a.conf",
        "line": 2,
        "problem": "there is no option [api] auth_stratgy; did you mean auth_strategy?",
    }


def test_missing_file_is_reported(run):
    refused = run("config", "validate", "--config-file", "absent.conf")
    assert refused.returncode == 1
    assert refused.stdout == "absent.conf: error: No such file or directory\n"


def test_environment_variables_are_checked(run):
    refused = run("config", "validate", OS_API__AUTH_STRATEGY="x", OS_API__FOO="1", OS_CLOUD="y")
    assert refused.returncode == 1
    assert [line.split(": ")[:2] for line in refused.stdout.splitlines()] == [
        ["environment OS_API__AUTH_STRATEGY", "error"],
        ["environment OS_API__FOO", "warning"],
    ]


def test_database_is_checked_only_on_request(run):
    url = {"OS_PLACEMENT_DATABASE__CONNECTION": "postgresql://127.0.0.1:1/x"}
    assert run("config", "validate", **url).returncode == 0
    refused = run("config", "validate", "--database", **url)
    assert refused.returncode == 1
    assert refused.stdout.startswith(
        "error: [placement_database] connection: the database does not answer: "
    )


@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_pending_database_upgrade_is_a_warning(kind, run, tmp_path):
    with empty_database(kind, tmp_path) as url:
        name = {"OS_PLACEMENT_DATABASE__CONNECTION": url}
        empty = run("config", "validate", "--database", **name)
        assert (
            empty.returncode,
            empty.stdout.startswith("warning: the database schema is at revision none"),
        ) == (0, True)
        assert "run placement-sched db sync" in empty.stdout
        by_itself = {**name, "OS_PLACEMENT_DATABASE__SYNC_ON_STARTUP": "true"}
        assert run("config", "validate", "--database", **by_itself).stdout == VALID
        assert run("db", "sync", **name).returncode == 0
        assert run("config", "validate", "--database", **name).stdout == VALID


def test_unparsable_option_stops_other_commands_with_one_line(run, tmp_path):
    (tmp_path / "a.conf").write_text("[scheduler]\nmax_attempts = x\n")
    refused = run("db", "version", "--config-file", "a.conf")
    assert refused.returncode == 1
    assert "max_attempts" in refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "name", ["enable_isolated_aggregate_filtering", "enable_forbidden_aggregates_filter"]
)
def test_both_names_of_an_option_are_accepted(tmp_path, name):
    file = tmp_path / "a.conf"
    connection = "[placement_database]\nconnection = sqlite:///file.db\n"
    file.write_text(f"{connection}[scheduler]\n{name} = true\n")
    command = Path(sys.executable).with_name("placement-sched")
    done = subprocess.run(
        [command, "config", "validate", "--config-file", str(file)],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert (done.returncode, done.stdout) == (0, "the configuration is valid\n")
    assert done.stderr == f"files read: {file}\n"
