# SPDX-License-Identifier: Apache-2.0
"""``config sample`` and ``config validate``."""

import json
import re
from contextlib import redirect_stdout
from io import StringIO

import pytest

from placement_sched.cli.main import main
from tests.support.empty_databases import empty_database

pytestmark = pytest.mark.slow

VALID_CONFIG_MESSAGE = "the configuration is valid\n"
NOTIFICATIONS_SECTION = "[oslo_messaging_notifications]\n"


@pytest.fixture
def run_config_validate(tmp_path, monkeypatch, run_main):
    """Return a function that validates with environment variables: status, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OS_API__AUTH_STRATEGY", raising=False)
    monkeypatch.delenv("OS_PLACEMENT_DATABASE__CONNECTION", raising=False)

    def run_config_validate(*arguments: str, **variables: str) -> tuple[int, str, str]:
        with monkeypatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(f"OS_{name}", value)
            return run_main("config", "validate", *arguments)

    return run_config_validate


@pytest.fixture
def validate_conf(run_config_validate, tmp_path):
    """Return a function that validates a text and returns the status and the output."""

    def validate_conf(text: str, *arguments: str) -> tuple[int, str]:
        (tmp_path / "a.conf").write_text(text)
        has_database = re.search("^connection =", text, re.MULTILINE)
        variables = {} if has_database else {"PLACEMENT_DATABASE__CONNECTION": "sqlite:///file.db"}
        return run_config_validate("--config-file", "a.conf", *arguments, **variables)[:2]

    return validate_conf


@pytest.fixture(scope="module")
def sample_configuration() -> str:
    with redirect_stdout(StringIO()) as output:
        assert main(["config", "sample"]) == 0
    return output.getvalue()


def test_config_sample_has_options_of_core_plugins_and_libraries(sample_configuration):
    assert {
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
    } <= set(sample_configuration.splitlines())


def test_config_sample_sets_no_option_and_is_valid(sample_configuration, validate_conf):
    assert [
        line for line in sample_configuration.splitlines() if line and line[0] not in "#["
    ] == []
    assert validate_conf(sample_configuration) == (0, VALID_CONFIG_MESSAGE)


def test_config_sample_with_all_defaults_set_is_valid(sample_configuration, validate_conf):
    written = "\n".join(
        line[1:] if line.startswith("#") and line[1:2].isalpha() and " = " in line else line
        for line in sample_configuration.splitlines()
        if "<None>" not in line
    )
    status, printed = validate_conf(written)
    # oslo.messaging's sample may have deprecated options.
    usual = re.compile(
        r"a.conf:\d+: warning: \[oslo_messaging_rabbit\] \w+ will be removed.*"
        r"|the configuration is valid"
    )
    assert status == 0
    assert [line for line in printed.splitlines() if not usual.fullmatch(line)] == []


def test_ignored_slave_connection_is_a_warning(validate_conf):
    place = "postgresql://u:p@db/placement"
    text = f"[placement_database]\nconnection = {place}\nslave_connection = {place}\n"
    status, printed = validate_conf(text)
    assert status == 0
    assert printed.startswith(
        "a.conf:3: warning: [placement_database] slave_connection is ignored: "
    )


#: Group and line of an error, and its message with the place of the group and option.
INVALID_OPTION_LINES = [
    ("scheduler", "max_atempts = 3", "there is no option {}. Did you mean max_attempts?\n"),
    (
        "scheduler",
        "host_subset_size = 3",
        "there is no option {}, but it exists in [filter_scheduler]\n",
    ),
    ("scheduler", "max_attempts = many", "{} has a wrong value: 'many' is not an integer\n"),
    (
        "scheduler",
        "max_attempts = 0",
        "{} has a wrong value: Should be greater than or equal to 1\n",
    ),
    (
        "filter_scheduler",
        "ram_weight_multiplier = inf",
        "{} has a wrong value: inf is not a finite",
    ),
    ("keystone_authtoken", "auth_type = nonsense", "{} nonsense is not installed\n"),
    ("metrics", "weight_seting = x", "there is no option {}. Did you mean weight_setting?\n"),
    ("neutron", "auth_type = nonsense", "{} nonsense is not installed"),
    ("neutron", "endpoint_overide = x", "there is no option {}. Did"),
    ("notifications", "notification_format = json", "{} has a wrong value: "),
]
#: Texts and the messages of their errors.
INVALID_CONF_TEXTS = [
    (
        "[schedular]\n\nmax_attempts = 3\nmax_placement_results = 2\n",
        "a.conf:1: warning: unknown group [schedular]. Did you mean [scheduler]?\n",
    ),
    (
        (
            "#\n[filter_scheduler]\nenabled_filters = ComputeFilter,\n  RamFilter\n"
            "[api]\nauth_strategy = x\n"
        ),
        "a.conf:6: error: [api] auth_strategy has a wrong value: Valid values are [keystone",
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
        "[placement_database]\nconnection = oracle://x/y\n",
        "error: [placement_database] connection: 'oracle' is not supported",
    ),
    ("[scheduler\n", "a.conf:1: error: Invalid section (must end with ])\n"),
    ("[scheduler]\nnonsense\n", "a.conf:2: error: No ':' or '=' found in assignment\n"),
    ("[neutron]\nauth_type = password\n", "error: [neutron]: Auth plugin requires parameters"),
    (
        f"{NOTIFICATIONS_SECTION}driver = mesagingv2\n",
        f"error: {NOTIFICATIONS_SECTION[:-1]} driver: unknown driver 'mesagingv2'. There",
    ),
    (
        f"{NOTIFICATIONS_SECTION}driver = messagingv2\ntransport_url = rabit://bus/\n",
        f"error: {NOTIFICATIONS_SECTION[:-1]} transport_url: Failed to load transport driver",
    ),
]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *(
            (
                f"[{group}]\n{line}\n",
                # An option that does not exist does not prevent a start.
                f"a.conf:2: {'warning' if words.startswith('there') else 'error'}: {words}".format(
                    f"[{group}] {line.split()[0]}"
                ),
            )
            for group, line, words in INVALID_OPTION_LINES
        ),
        *INVALID_CONF_TEXTS,
    ],
)
def test_configuration_error_is_one_line_with_file_and_line(validate_conf, text, message):
    status, printed = validate_conf(text)
    assert status == int(": warning: " not in message)
    assert printed.startswith(message)
    assert printed.count("\n") == 1


def test_configuration_errors_are_printed_in_order_of_lines(validate_conf):
    _, printed = validate_conf("[api]\nfoo = 1\nbar = 2\n[nowhere]\nx = 1\n[scheduler]\ny = 1\n")
    assert [line.partition(": ")[0] for line in printed.splitlines()] == [
        "a.conf:2",
        "a.conf:3",
        "a.conf:4",
        "a.conf:7",
    ]


def test_option_of_another_service_is_a_warning(validate_conf):
    status, printed = validate_conf(
        "[DEFAULT]\ncompute_driver = libvirt.LibvirtDriver\n"
        "[cinder]\ncatalog_info = volumev3\nos_region_name = x\n"
        "[placement]\nauth_type = password\ncafile = /x\n"
        "[metrics]\nweight_setting = cpu.percent=1.0\nrequired = true\n"
        "[pci]\nreport_in_placement = true\n[scheduler]\nworkers = 2\n"
        "[filter_scheduler]\npci_weight_multiplier = 1.0\n"
        "[workarounds]\nenable_numa_live_migration = true\n"
    )
    unused = {
        2: "[DEFAULT] compute_driver",
        7: "[placement] auth_type",
        8: "[placement] cafile",
        13: "[pci] report_in_placement",
        19: "[workarounds] enable_numa_live_migration",
    }
    lines = {
        number: f"there is no option {option} here, so it is not used"
        for number, option in unused.items()
    }
    lines[3] = "unknown group [cinder], its options are not used"
    assert status == 0
    assert printed.splitlines() == [
        f"a.conf:{number}: warning: {lines[number]}" for number in sorted(lines)
    ]


@pytest.mark.parametrize("auth_type", ["<None>", "nope"])
def test_unknown_auth_type_is_reported_once(run_config_validate, auth_type):
    words = f"[keystone_authtoken] auth_type {auth_type} is not installed"
    assert run_config_validate(KEYSTONE_AUTHTOKEN__AUTH_TYPE=auth_type) == (
        1,
        f"environment OS_KEYSTONE_AUTHTOKEN__AUTH_TYPE: error: {words}\n",
        "files read: none\n",
    )


def test_missing_configuration_file_is_reported_by_name(run_config_validate, run_main):
    files = ("--config-file", "a.conf", "--config-file", "b.conf")
    words = "placement-sched: a.conf: No such file or directory\n"
    assert run_main("db", "version", *files) == (1, "", words)
    status, printed, _ = run_config_validate(*files)
    assert (status, printed) == (
        1,
        "a.conf: error: No such file or directory\nb.conf: error: No such file or directory\n",
    )


def test_deprecated_option_name_is_a_warning(validate_conf):
    status, printed = validate_conf(
        "[keystone_authtoken]\nauth_type = password\ntenant-name = x\n"
        "auth_url = http://127.0.0.1:5000\nusername = placement\npassword = secret\n"
    )
    assert status == 0
    assert printed == (
        "a.conf:3: warning: [keystone_authtoken] tenant-name is a deprecated name of "
        "[keystone_authtoken] project_name\n"
    )


def test_deprecated_option_name_is_reported_once(run_command, tmp_path):
    connection = "[placement_database]\nconnection = sqlite:///file.db\n"
    (tmp_path / "nova.conf").write_text(f"{connection}[DEFAULT]\nscheduler_host_subset_size = 2\n")
    checked = run_command("config", "validate", "--config-file", "nova.conf")
    assert checked.stdout.count("scheduler_host_subset_size") == 1
    assert checked.stderr == "files read: nova.conf\n"


#: The options of nova's networking guide that this service does not use.
NEUTRON_SECTION = """\
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


def test_neutron_section_of_nova_conf_is_accepted(validate_conf):
    assert validate_conf(NEUTRON_SECTION) == (0, VALID_CONFIG_MESSAGE)
    status, printed = validate_conf(
        f"{NEUTRON_SECTION}service_metadata_proxy = true\nmetadata_proxy_shared_secret = x\n"
        "ovs_bridge = br-int\nphysnets = a,b\ndefault_floating_pool = x\n"
    )
    assert status == 0
    assert printed.count(" here, so it is not used\n") == printed.count("\n") == 5


def test_messaging_sections_of_nova_conf_are_accepted(validate_conf):
    text = (
        "[DEFAULT]\ntransport_url = rabbit://u:p@bus:5672/\nhost = ctl1\n"
        "[notifications]\nnotification_format = both\n"
        "[oslo_messaging_notifications]\ndriver = messagingv2\ntopics = notifications,audit\n"
        "[oslo_messaging_rabbit]\nrabbit_ha_queues = true\n"
    )
    assert validate_conf(text) == (0, VALID_CONFIG_MESSAGE)


def test_unknown_messaging_group_is_a_warning(validate_conf):
    words = "a.conf:1: warning: unknown group [oslo_messaging_amqp], its options are not used\n"
    assert validate_conf("[oslo_messaging_amqp]\nidle_timeout = 3\n") == (0, words)


def test_invalid_secret_is_not_printed(validate_conf):
    _, printed = validate_conf("[keystone_authtoken]\nmemcache_secret_key = a\nauth_type = nope\n")
    assert "memcache_secret_key" not in printed


def test_json_of_config_validate_has_file_and_line_of_each_problem(validate_conf):
    status, printed = validate_conf("[api]\nauth_stratgy = 1\n", "--format", "json")
    (problem,) = json.loads(printed)
    assert status == 0
    assert problem == {
        "severity": "warning",
        "file": "a.conf",
        "line": 2,
        "problem": "there is no option [api] auth_stratgy. Did you mean auth_strategy?",
    }


def test_config_validate_checks_environment_variables(run_config_validate):
    status, printed, _ = run_config_validate(API__AUTH_STRATEGY="x", API__FOO="1", CLOUD="y")
    assert status == 1
    assert [line.split(": ")[:2] for line in printed.splitlines()] == [
        ["environment OS_API__AUTH_STRATEGY", "error"],
        ["environment OS_API__FOO", "warning"],
    ]


def test_config_validate_connects_only_with_the_database_option(run_config_validate):
    url = {"PLACEMENT_DATABASE__CONNECTION": "postgresql://127.0.0.1:1/x"}
    assert run_config_validate(**url)[0] == 0
    status, printed, _ = run_config_validate("--database", **url)
    assert status == 1
    assert printed.startswith(
        "error: [placement_database] connection: the database does not answer: "
    )


def test_config_validate_reads_the_cells_of_nova(run_config_validate, sqlite_url):
    urls = {"PLACEMENT_DATABASE__CONNECTION": sqlite_url, "API_DATABASE__CONNECTION": sqlite_url}
    assert run_config_validate(**urls)[0] == 0
    status, printed, _ = run_config_validate("--database", **urls)
    assert status == 1
    problem = "[api_database] connection: the configured database is not nova's API database: "
    assert f"error: {problem}" in printed
    assert "cell_mappings" in printed


def test_each_plugin_that_cannot_be_imported_is_reported_once(validate_conf):
    status, printed = validate_conf(
        "[filter_scheduler]\navailable_filters = no.First\navailable_filters = no.Second\n"
        "weight_classes = no.Weigher\n"
    )
    assert status == 1
    option = "error: [filter_scheduler]"
    assert [line.partition(" cannot")[0] for line in printed.splitlines()] == [
        f"{option} available_filters: 'no.First'",
        f"{option} available_filters: 'no.Second'",
        f"{option} weight_classes: 'no.Weigher'",
    ]


@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_pending_database_upgrade_is_a_warning(
    kind, run_config_validate, run_main, tmp_path, monkeypatch
):
    with empty_database(kind, tmp_path) as url:
        monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", url)
        status, printed, _ = run_config_validate("--database")
        assert status == 0
        assert printed.startswith("warning: the database schema is at revision none")
        assert "Run placement-sched db sync" in printed
        by_itself = {"PLACEMENT_DATABASE__SYNC_ON_STARTUP": "true"}
        assert run_config_validate("--database", **by_itself)[1] == VALID_CONFIG_MESSAGE
        assert run_main("db", "sync")[0] == 0
        assert run_config_validate("--database")[1] == VALID_CONFIG_MESSAGE


def test_invalid_option_value_ends_another_command_with_one_line(validate_conf, run_main):
    validate_conf("[scheduler]\nmax_attempts = x\n")
    status, _, error = run_main("db", "version", "--config-file", "a.conf")
    assert status == 1
    assert "max_attempts" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "name", ["enable_isolated_aggregate_filtering", "enable_forbidden_aggregates_filter"]
)
def test_old_and_new_name_of_an_option_are_accepted(validate_conf, name):
    assert validate_conf(f"[scheduler]\n{name} = true\n") == (0, VALID_CONFIG_MESSAGE)


def test_all_errors_of_a_file_are_reported(validate_conf):
    status, printed = validate_conf(
        "[scheduler\nnonsense\n[api]\nauth_strategy = x\n= 3\n[scheduler]\nmax_attempts = many\n"
    )
    assert status == 1
    assert [line.split(": ")[:2] for line in printed.splitlines()] == [
        [f"a.conf:{number}", "error"] for number in (1, 2, 5, 4, 7)
    ]


def test_errors_of_all_options_with_plugins_are_reported(validate_conf):
    status, printed = validate_conf(
        "[scheduler]\ndriver = nodriver\n"
        "[filter_scheduler]\nenabled_filters = RamFiltr,ComputeFilter,QuantumFilter,CoreFliter\n"
        "weight_classes = no.Weigher\n"
    )
    assert status == 1
    assert (
        "error: [filter_scheduler] enabled_filters: unknown filters 'RamFiltr', 'QuantumFilter' "
        "and 'CoreFliter'. Did you mean 'RamFilter' for 'RamFiltr' or 'CoreFilter' for "
        "'CoreFliter'?\n"
    ) in printed
    assert "error: [filter_scheduler] weight_classes: 'no.Weigher' cannot be imported" in printed
    assert "error: [scheduler] driver: unknown driver 'nodriver'" in printed
    assert len(printed.splitlines()) == 3


LOUD_LOGGING_FILE = """
[loggers]
keys = root
[handlers]
keys =
[formatters]
keys =
[logger_root]
level = LOUD
handlers =
"""


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("policy.yaml", "- x\n", "[oslo_policy] policy_file"),
        ("rules/own.yaml", "- x\n", "rules/own.yaml: 'list'"),
        ("rules/own.yaml", "- x\n", "[oslo_policy] policy_dirs "),
        ("logging.ini", LOUD_LOGGING_FILE, "log_config_append: logging.ini: Unknown level: 'LOUD'"),
        ("logging.ini", "?", "[DEFAULT] log_config_append: logging.ini: File contains no section"),
    ],
)
def test_file_that_prevents_a_start_is_an_error(validate_conf, tmp_path, name, text, problem):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    options = "log_config_append = logging.ini\n" if name == "logging.ini" else ""
    status, printed = validate_conf(
        f"[DEFAULT]\n{options}[oslo_policy]\npolicy_file = policy.yaml\npolicy_dirs = rules\n"
    )
    assert status == 1
    assert printed.startswith("error: ")
    assert problem in printed


def test_each_wrong_policy_file_is_named(validate_conf, tmp_path):
    (tmp_path / "rules").mkdir()
    for name in ("policy.yaml", "rules/own.yaml"):
        (tmp_path / name).write_text("- x\n")
    options = "policy_file = policy.yaml\npolicy_dirs = rules\n"
    status, printed = validate_conf(f"[oslo_policy]\n{options}")
    assert status == 1
    assert printed.count("[oslo_policy] policy_file") == 1
    assert "rules/own.yaml: 'list'" in printed


def test_pool_options_of_nova_are_no_errors(validate_conf):
    names = "max_pool_size max_overflow pool_timeout connection_debug mysql_sql_mode"
    lines = "".join(f"{name} = 1\n" for name in names.split())
    status, printed = validate_conf(f"[api_database]\n{lines}[database]\n{lines}")
    assert status == 0
    assert "placement_database" not in printed


def test_workers_of_the_api_are_ignored_in_favour_of_the_argument(validate_conf):
    status, printed = validate_conf("[api]\nworkers = 4\n")
    assert (status, "--workers of placement-sched serve" in printed) == (0, True)


def test_wrong_value_hides_no_other_fault(validate_conf, tmp_path):
    (tmp_path / "policy.yaml").write_text("- x\n")
    status, printed = validate_conf(
        "[DEFAULT]\nlog_config_append = none.ini\n"
        "[api]\nauth_strategy = keystone\n"
        "[filter_scheduler]\nenabled_filters = RamFiltr\n"
        "[oslo_policy]\npolicy_file = policy.yaml\n"
        "[scheduler]\nmax_attempts = many\n"
    )
    assert status == 1
    for problem in (
        "[scheduler] max_attempts has a wrong value",
        "unknown filter 'RamFiltr'",
        "[oslo_policy] policy_file",
        "log_config_append: none.ini",
        "[keystone_authtoken] auth_type is not set",
    ):
        assert printed.count(problem) == 1, printed


def test_wrong_value_causes_no_warning_about_a_section_of_a_policy(validate_conf):
    status, printed = validate_conf(
        "[scheduler]\nmax_attempts = many\n[gold]\nram_weight_multiplier = 2.0\n"
    )
    assert (status, len(printed.splitlines())) == (1, 1), printed


def test_lines_below_a_broken_heading_cause_no_warnings(validate_conf):
    status, printed = validate_conf("[api]\n[scheduler\nmax_attempts = 3\nno_such = 1\n")
    assert (status, len(printed.splitlines())) == (1, 1)
    assert printed.startswith("a.conf:2: error: ")
