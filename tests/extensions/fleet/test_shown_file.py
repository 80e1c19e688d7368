# SPDX-License-Identifier: Apache-2.0
"""Commands and servers that read a fleet file (``--fleet``)."""

import json
import os
import re
import stat
import time

import pytest
import yaml

from placement_sched.extensions.fleet import shown_file

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Support for InfluxDB"),  # openstacksdk's own
]

CLOUD = """\
flavors: [{name: small, vcpus: 1, memory_mb: 512}]
hosts:
- {host: "cn[1-2]", vcpus: 8, memory_mb: 4096, last_seen_up: "2020-01-01T12:00:00Z"}
- {host: cn3, vcpus: 8, memory_mb: 4096, last_seen_up: "2020-01-01T11:00:00Z"}
instances: [{name: web, host: cn1, flavor: small}]
"""
NOVA_CONF = """\
[DEFAULT]
cpu_allocation_ratio = 2.0
log_file = /no/such/folder/nova.log
[api_database]
connection = mysql+pymysql://nova:secret@192.0.2.1/nova_api
[filter_scheduler]
enabled_filters = ImagePropertiesFilter
"""
HINT = (
    "placement-sched: filters, weighers and ratios are nova's defaults: name the nova.conf of the "
    "cloud with --nova-conf\n"
)
NO_LOAD = "the file was loaded again"


@pytest.fixture
def run(tmp_path, monkeypatch, run_cli):
    """Return a function that runs a command in a folder with a fleet file."""
    folder = tmp_path / "files"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("OS_DEFAULT__SERVICE_DOWN_TIME")
    (folder / "cloud.yaml").write_text(CLOUD)
    (folder / "nova.conf").write_text(NOVA_CONF)
    return run_cli


def list_databases(folder):
    return sorted(path.name for path in folder.glob(".*"))


QUESTIONS = [
    ("explain", "small"),
    ("explain", "small", "--host", "cn3", "--change", "drain=cn2", "-f", "json"),
    ("capacity", "small", "--per", "host"),
    ("plan", "--change", "drain=cn1", "--flavor", "small"),
    ("rebalance", "--goal", "spread"),
    ("host", "list"),
    ("host", "show", "cn1", "-f", "json"),
    ("host", "drain", "cn1"),
    ("policy", "list"),
    ("policy", "show", "default"),
]


@pytest.mark.parametrize("question", QUESTIONS, ids=" ".join)
def test_answers_equal_those_of_a_database_with_the_file(run, tmp_path, question):
    def drop_times(text):
        return [line for line in text.splitlines() if not re.search("elapsed_ms|changed_at", line)]

    # Hosts that are always up, so that both answers are about the same time.
    (tmp_path / "files" / "cloud.yaml").write_text(CLOUD.replace("2020-", "2099-"))
    status, printed, errors = run(*question, "--fleet", "cloud.yaml")
    assert (status, errors) == (0, HINT)
    assert run("fleet", "load", "cloud.yaml")[0] == 0
    assert drop_times(printed) == drop_times(run(*question)[1])


def test_file_is_loaded_once_for_each_content(run, tmp_path, monkeypatch):
    folder = tmp_path / "files"
    (folder / "cloud.yaml").chmod(0o600)
    # The configured database is not used.
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", "sqlite:////no/such/folder/a.db")
    command = ("host", "list", "--fleet", "cloud.yaml", "-f", "value", "-c", "Host")
    assert run(*command) == (0, "cn1\ncn2\ncn3\n", HINT)
    (name,) = list_databases(folder)
    assert re.fullmatch(r"\.cloud\.yaml\.[0-9a-f]{16}\.1577880000\.db", name)
    assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
    with monkeypatch.context() as context:
        context.setattr(shown_file, "merge", lambda *_: pytest.fail(NO_LOAD))
        assert run(*command) == (0, "cn1\ncn2\ncn3\n", HINT)
    (folder / "cloud.yaml").write_text(CLOUD.replace("cn3", "cn4"))
    assert run(*command) == (0, "cn1\ncn2\ncn4\n", HINT)
    assert len(list_databases(folder)) == 2
    # A database that was not used for a week is deleted with the next load.
    os.utime(folder / name, (0, time.time() - 8 * 86_400))
    (folder / "cloud.yaml").write_text(CLOUD.replace("cn3", "cn5"))
    assert run(*command) == (0, "cn1\ncn2\ncn5\n", HINT)
    assert len(list_databases(folder)) == 2
    assert name not in list_databases(folder)


def test_database_is_in_the_cache_folder_if_the_folder_of_the_file_is_read_only(
    run, tmp_path, monkeypatch
):
    folder, access = tmp_path / "files", os.access
    # Tests may run as root, who may write everywhere.
    monkeypatch.setattr(os, "access", lambda path, mode: path != folder and access(path, mode))
    for _ in range(2):
        assert run("host", "list", "--fleet", "cloud.yaml")[::2] == (0, HINT)
    assert list_databases(folder) == []
    assert len(list_databases(tmp_path / "cache" / "placement-sched")) == 1


def test_hosts_are_judged_at_the_time_of_the_file(run):
    command = ("host", "list", "--fleet", "cloud.yaml", "-f", "value", "-c", "State")
    assert run(*command)[1] == "up\nup\ndown\n"
    printed = run("explain", "small", "--host", "cn3", "--fleet", "cloud.yaml")[1]
    assert "cn3  rejected" in printed
    assert "ComputeFilter" in printed


def test_filters_and_ratios_of_nova_conf_apply_and_its_other_options_do_not(run):
    command = ("explain", "small", "--fleet", "cloud.yaml", "-f", "json")
    options = ("--nova-conf", "nova.conf")

    def list_filters(output):
        status, printed, errors = output
        assert status == 0
        return [each["name"] for each in json.loads(printed)["funnel"]["filters"]], errors

    default_filters, errors = list_filters(run(*command))
    assert ("ComputeFilter" in default_filters, errors) == (True, HINT)
    assert list_filters(run(*command, *options)) == (["ImagePropertiesFilter"], "")
    command = ("host", "show", "cn2", "--fleet", "cloud.yaml", "-f", "json")
    for extra, capacity in ((options, 16), ((), 32)):
        (node,) = json.loads(run(*command, *extra)[1])["nodes"]
        assert node["providers"][0]["inventories"]["VCPU"]["capacity"] == capacity


def test_server_of_the_file_is_explained_without_the_database_of_nova_conf(run):
    uuid = json.loads(run("host", "show", "cn1", "--fleet", "cloud.yaml", "-f", "json")[1])
    command = ("explain", "--server", uuid["instances"][0]["uuid"], "--fleet", "cloud.yaml")
    status, printed, errors = run(*command, "--nova-conf", "nova.conf")
    assert (status, errors) == (0, "")
    assert "its record" in printed


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (None, "cloud.yaml: No such file or directory"),
        ("", "cloud.yaml:1:1: the file is empty"),
        ("# nothing\n", "cloud.yaml:1:1: the file is empty"),
        ("version: 2\n", "cloud.yaml:1:10: "),
        ("hosts: [", "cloud.yaml:2:1: "),
        ("hosts: [{host: cn1}, {host: cn1}]\n", "cloud.yaml:1:"),
    ],
)
def test_wrong_file_is_wrong_usage_with_the_place(run, tmp_path, text, place):
    file = tmp_path / "files" / "cloud.yaml"
    file.unlink()
    if text is not None:
        file.write_text(text)
    status, printed, errors = run("host", "list", "--fleet", "cloud.yaml")
    assert (status, printed) == (2, "")
    assert errors.removeprefix(HINT).startswith(f"placement-sched: {place}")
    assert list_databases(tmp_path / "files") == []
    assert run("serve", "--fleet", "cloud.yaml")[0] == 2


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("host", "list", "--fleet", "cloud.yaml", "--url", "http://a"), "--url cannot be"),
        (("host", "list", "--fleet", "cloud.yaml", "--os-cloud", "a"), "--os-cloud cannot be"),
        (("host", "list", "--fleet", "cloud.yaml", "--token", "a"), "--token cannot be"),
        (("host", "list", "--nova-conf", "nova.conf"), "--nova-conf needs --fleet FILE"),
        (("host", "drain", "cn1", "--execute", "--fleet", "cloud.yaml"), "cannot be moved"),
        (("plan", "--resume", "x", "--fleet", "cloud.yaml"), "cannot be moved"),
    ],
)
def test_options_that_contradict_the_file_are_wrong_usage(run, command, message):
    status, printed, errors = run(*command)
    assert (status, printed) == (2, "")
    assert message in errors


UNKNOWN_CLOUD = """\
flavors:
- {name: numa, vcpus: 1, memory_mb: 512, extra_specs: {"hw:numa_nodes": "1"}}
hosts:
- {host: "cn[1-2]", vcpus: 8, memory_mb: 4096, last_seen_up: "2099-01-01T12:00:00Z",
   unknown: [numa_topology, stats]}
- {host: cn3, vcpus: 8, memory_mb: 4096, last_seen_up: "2099-01-01T12:00:00Z"}
instances: [{name: web, host: cn1, flavor: numa}]
"""
NOVA_CONF_WITH_NUMA = """\
[filter_scheduler]
enabled_filters = NUMATopologyFilter
"""


@pytest.fixture
def unknown_cloud(run, tmp_path):
    """Write a file whose hosts have unknown NUMA cells, and a nova.conf."""
    (tmp_path / "files" / "cloud.yaml").write_text(UNKNOWN_CLOUD)
    (tmp_path / "files" / "nova.conf").write_text(NOVA_CONF_WITH_NUMA)
    return ("--fleet", "cloud.yaml", "--nova-conf", "nova.conf")


def test_hosts_with_unknown_values_pass_and_are_marked(run, unknown_cloud):
    status, printed, _ = run("explain", "numa", *unknown_cloud)
    assert status == 0
    words = " ".join(printed.split())
    assert "2 hosts not examined by NUMATopologyFilter: host NUMA cells are in no API" in words
    weighers = "BuildFailureWeigher and IoOpsWeigher"
    assert f"not examined by {weighers}: host I/O load and failed builds are in no API" in words
    explanation = json.loads(run("explain", "numa", *unknown_cloud, "-f", "json")[1])
    (report,) = explanation["funnel"]["filters"]
    assert [each["host"] for each in report["rejected"]] == ["cn3"]
    assert report["not_examined"] == [
        {"host": host, "node": host, "field": "numa_topology"} for host in ("cn1", "cn2")
    ]
    reports = explanation["funnel"]["weighers"]
    weighers = {each["name"]: each.get("not_examined") for each in reports}
    assert (weighers["IoOpsWeigher"], weighers["RAMWeigher"]) == ("stats", None)


def test_numbers_of_hosts_with_unknown_values_are_upper_bounds(run, unknown_cloud):
    status, printed, _ = run("capacity", "numa", *unknown_cloud)
    assert status == 0
    assert "host NUMA cells are in no API and were not examined: the number is an" in " ".join(
        printed.split()
    )
    plan = json.loads(run("plan", "--change", "drain=cn1", *unknown_cloud, "-f", "json")[1])
    assert plan["unknown"]["numa_topology"] == [move["instance"] for move in plan["moves"]]
    status, printed, _ = run("plan", "--change", "drain=cn1", *unknown_cloud)
    assert "host NUMA cells of 1 server are not known" in printed


def test_nothing_is_claimed_on_a_host_that_was_not_examined(run, unknown_cloud, monkeypatch):
    monkeypatch.setenv("OS_FILTER_SCHEDULER__ENABLED_FILTERS", "NUMATopologyFilter")
    assert run("fleet", "load", "cloud.yaml")[0] == 0
    assert "numa_topology" in run("fleet", "dump")[1]
    status, _, errors = run("select", "numa")
    assert status == 1
    assert "was not examined, because host NUMA cells are in no API: nothing is claimed" in errors
    assert run("select", "numa", "--no-claim")[0] == 0


def test_explanation_of_a_file_is_not_kept(run):
    status, _, errors = run("explain", "small", "--keep", "--fleet", "cloud.yaml")
    assert status == 1
    assert "this server shows a file and changes nothing" in errors


def test_answers_about_an_anonymised_file_are_translated_back(run):
    command = ("host", "list", "-f", "value", "-c", "Host", "--fleet")
    assert run("fleet", "anonymize", "cloud.yaml", "share.yaml", "--names", "n.json")[0] == 0
    assert "cn1" not in run(*command, "share.yaml")[1]
    status, printed, _ = run(*command, "share.yaml", "--names", "n.json")
    assert (status, printed) == (0, run(*command, "cloud.yaml")[1])


def test_disabled_extension_reads_no_file(run, monkeypatch):
    monkeypatch.setenv("OS_DEFAULT__DISABLED_EXTENSIONS", "fleet")
    status, printed, errors = run("host", "list", "--fleet", "cloud.yaml")
    assert (status, printed) == (1, "")
    assert "the extension fleet is disabled by [DEFAULT] disabled_extensions" in errors


def test_variable_of_a_cloud_does_not_replace_the_file(run, monkeypatch):
    monkeypatch.setenv("OS_CLOUD", "prod")
    assert run("host", "list", "--fleet", "cloud.yaml")[0] == 0


def test_server_shows_the_file_and_rejects_every_change(run, serve, tmp_path):
    folder = tmp_path / "files"
    server = serve(
        *("--fleet", str(folder / "cloud.yaml"), "--nova-conf", str(folder / "nova.conf")),
        OS_DEFAULT__SERVICE_DOWN_TIME="60",
    )
    (name,) = [name for name in list_databases(folder) if name.endswith(".db")]
    content = (folder / name).read_bytes()
    hosts = json.loads(server.get("/scheduler/v1/hosts")[2])["hosts"]
    assert [(host["host"], host["state"]) for host in hosts] == [
        ("cn1", "up"), ("cn2", "up"), ("cn3", "down")
    ]  # fmt: skip
    assert server.get("/console/cloud")[0] == 200
    spec = {"request_spec": {"flavor": "small"}}
    explanation = server.request_json("POST", "/scheduler/v1/explain", spec)
    filters = explanation["funnel"]["filters"]
    assert [each["name"] for each in filters] == ["ImagePropertiesFilter"]
    uuid = hosts[0]["nodes"][0]["uuid"] if "nodes" in hosts[0] else "cn1"
    for method, path, body in (
        ("POST", "/scheduler/v1/select_destinations", spec),
        ("POST", "/scheduler/v1/explain", {**spec, "keep": True}),
        ("PUT", "/placement/traits/CUSTOM_A", None),
        ("POST", "/placement/resource_providers", {"name": uuid}),
        ("POST", "/compute/v2.1/os-aggregates", {"aggregate": {"name": "a"}}),
    ):
        status, document = server.send(
            method, path, body, **{"OpenStack-API-Version": "placement 1.39"}
        )
        assert (status, "this server shows a file" in str(document)) == (403, True), path
    assert server.stop() == 0
    assert (folder / name).read_bytes() == content


@pytest.fixture
def cloud(run, serve, tmp_path, monkeypatch):
    """Serve a cloud that clouds.yaml names ``prod``."""
    server = serve()
    assert run("fleet", "load", "cloud.yaml")[0] == 0
    settings = {
        "auth_type": "admin_token",
        "auth": {"endpoint": f"{server.url}/placement", "token": "admin"},
        "compute_endpoint_override": f"{server.url}/compute/v2.1",
        "image_endpoint_override": f"{server.url}/image",
    }
    # openstacksdk searches only the working directory of its import.
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "clouds.yaml"))
    (tmp_path / "clouds.yaml").write_text(yaml.safe_dump({"clouds": {"prod": settings}}))


def test_look_reads_the_cloud_first(run, cloud, tmp_path):
    command = ("host", "list", "--os-cloud", "prod", "--look", "-f", "value", "-c", "Host")
    status, printed, errors = run(*command)
    assert (status, printed) == (0, "cn1\ncn2\ncn3\n")
    assert "the answers lack: NUMA cells and huge pages of hosts" in errors
    cache = tmp_path / "cache" / "placement-sched"
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert [path.name for path in cache.glob("*.yaml")] == ["prod.yaml"]
    assert run(*command, "--fleet", "looked.yaml")[:2] == (0, printed)
    assert (tmp_path / "files" / "looked.yaml").exists()
    # The file of another cloud is not overwritten.
    status, _, errors = run(*command, "--fleet", "cloud.yaml")
    assert status == 2
    assert "cloud.yaml is no fetched file" in errors
