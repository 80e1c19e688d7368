# SPDX-License-Identifier: Apache-2.0
"""The options of [load], their errors and warnings."""

import pytest

from placement_sched.errors import ConfigurationError, Invalid
from placement_sched.extensions.load.options import check_options, list_queries
from placement_sched.extensions.load.values import LoadQuery
from placement_sched.limits import MAX_LOAD_QUERIES
from placement_sched.scheduler.plugins import make_full_conf, read_settings

URL = "http://127.0.0.1:9090"


def read_options(tmp_path, *lines):
    file = tmp_path / "placement_sched.conf"
    head = ["[placement_database]", "connection = sqlite://", "[load]"]
    file.write_text("\n".join([*head, *lines]) + "\n")
    return read_settings([str(file)], make_full_conf())


def test_queries_of_a_file_are_read_with_their_commas_and_colons(tmp_path):
    expression = 'avg by (a, b) (instance:node_cpu:rate{mode=~"idle|user$", x!="1"}[5m])'
    # oslo.config replaces $name by the value of an option, and leaves $1.
    replacement = 'label_replace(up, "uuid", "$1", "id", "([^.]+).*")'
    settings = read_options(
        tmp_path,
        f"prometheus_url = {URL}",
        f"host_queries = cpu: {expression}",
        "host_queries = psi :up",
        f"server_queries = cpu: {replacement}",
        "server_label = uuid",
    )
    assert list_queries(settings) == (
        LoadQuery("host", "cpu", expression, "nodename"),
        LoadQuery("host", "psi", "up", "nodename"),
        LoadQuery("server", "cpu", replacement, "uuid"),
    )
    assert list(check_options(settings)) == []


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("host_queries = up", "[load] host_queries has a wrong value: 'up' is not NAME: PROMQL"),
        ("host_queries = job:cpu", None),
        ("host_queries = job::cpu", "'job::cpu' is not NAME: PROMQL"),
        ("server_queries = CPU: up", "[load] server_queries has a wrong value"),
        ("server_queries = cpu:", "[load] server_queries has a wrong value"),
        ("prometheus_url = prometheus:9090", "[load] prometheus_url has a wrong value"),
        ("interval = 1", "[load] interval has a wrong value"),
        ("max_age = 0", "[load] max_age has a wrong value"),
        ("half_life = -1", "[load] half_life has a wrong value"),
        ("prometheus_timeout = 0", "[load] prometheus_timeout has a wrong value"),
    ],
)
def test_wrong_value_is_an_error_with_the_option(tmp_path, line, words):
    if words is None:
        assert list_queries(read_options(tmp_path, line))[0].expression == "cpu"
        return
    with pytest.raises(ConfigurationError) as caught:
        read_options(tmp_path, line)
    assert words in caught.value.detail


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"prometheus_url": None}, "host_queries has no effect without prometheus_url"),
        ({"host_queries": []}, "prometheus_url has no effect without host_queries"),
        ({"prometheus_token": "t", "prometheus_username": "u"}, "prometheus_username is not used"),
        ({"prometheus_password": "p"}, "prometheus_password is not used"),
        ({"max_age": 59}, "max_age is less than interval"),
    ],
)
def test_option_without_effect_is_a_warning(sqlite_settings, with_load, options, words):
    (warning,) = check_options(with_load(sqlite_settings, **options))
    assert words in warning


def test_config_validate_names_the_option(run_cli, tmp_path):
    file = tmp_path / "load.conf"
    for line, words in (
        ("host_queries = up", "error: [load] host_queries has a wrong value: 'up' is not NAME:"),
        ("host_queries = cpu: up", "warning: [load] host_queries has no effect without prometh"),
        ("host_queries = a: x\nhost_queries = a: y", "[load] host_queries has two queries named a"),
    ):
        file.write_text(f"[load]\n{line}\n")
        status, out, err = run_cli("config", "validate", "--config-file", str(file))
        assert words in out + err
        assert status == int("warning" not in words)


def test_too_many_queries_are_an_error(sqlite_settings, with_load):
    queries = [f"q{number}: up" for number in range(MAX_LOAD_QUERIES + 1)]
    with pytest.raises(ConfigurationError, match=f"limit is {MAX_LOAD_QUERIES}"):
        list_queries(with_load(sqlite_settings, host_queries=queries))


def test_wrong_query_is_an_error_in_an_override(sqlite_settings, with_load):
    with pytest.raises(Invalid, match="'up' is not NAME: PROMQL"):
        with_load(sqlite_settings, host_queries=["up"])
