# SPDX-License-Identifier: Apache-2.0
"""``placement sync_*`` over HTTP, with addresses and a token or with clouds.yaml.

A server of this project stands for both remote services. ``tests/coexistence`` has the tests with
OpenStack's placement.
"""

import json

import pytest
import yaml

from placement_sched.cli.main import main
from tests.support.host_maps import LICENSED_TRAIT
from tests.support.reports import build_report, node_uuid
from tests.support.servers import Server, serve_database

pytestmark = pytest.mark.slow

REQUIRED_TRAIT_METADATA = {f"trait:{LICENSED_TRAIT}": "required"}


@pytest.fixture(scope="module")
def server_with_aggregate_of_cn1(tmp_path_factory):
    """A server with two hosts. cn1 is in an aggregate."""
    with serve_database(tmp_path_factory.mktemp("server")) as server:
        server.request_json(
            "POST", "/scheduler/v1/compute_nodes", [build_report(1), build_report(2)]
        )
        body = {"aggregate": {"name": "windows"}}
        aggregate = server.request_json("POST", "/compute/v2.1/os-aggregates", body)["aggregate"]
        action = f"/compute/v2.1/os-aggregates/{aggregate['id']}/action"
        server.request_json("POST", action, {"add_host": {"host": "cn1"}})
        server.request_json("POST", action, {"set_metadata": {"metadata": REQUIRED_TRAIT_METADATA}})
        yield server


@pytest.fixture
def server(server_with_aggregate_of_cn1):
    """The server without the membership and the trait in placement."""
    put_traits_or_aggregates(server_with_aggregate_of_cn1, "aggregates", [])
    put_traits_or_aggregates(server_with_aggregate_of_cn1, "traits", [])
    return server_with_aggregate_of_cn1


def put_traits_or_aggregates(server: Server, collection: str, value: list[str]) -> None:
    path = f"/placement/resource_providers/{node_uuid(1)}"
    generation = server.request_json("GET", path)["generation"]
    body = {"resource_provider_generation": generation, collection: value}
    server.request_json("PUT", f"{path}/{collection}", body, version="placement 1.19")


def read_traits_or_aggregates(server: Server, collection: str) -> list[str]:
    path = f"/placement/resource_providers/{node_uuid(1)}/{collection}"
    return server.request_json("GET", path, version="placement 1.19")[collection]


def run_placement_sync(server: Server, command: str, *options: str) -> int:
    urls = ("--url", f"{server.url}/placement", "--compute-url", f"{server.url}/compute/v2.1")
    return main(["placement", command, *urls, *options])


def test_sync_aggregates_accepts_url_and_token_options(server, capsys):
    assert run_placement_sync(server, "sync_aggregates", "--token", "admin") == 0
    assert capsys.readouterr().out.splitlines()[0] == "windows: 1 added (cn1)"
    assert len(read_traits_or_aggregates(server, "aggregates")) == 1


def test_sync_traits_of_a_remote_placement_adds_and_removes_traits(server, tmp_path, capsys):
    file = tmp_path / "put.json"
    assert run_placement_sync(server, "sync_traits", "--dry-run") == 0
    assert "traits are not removed without a record" in capsys.readouterr().out
    assert read_traits_or_aggregates(server, "traits") == []
    assert run_placement_sync(server, "sync_traits", "--state", str(file)) == 0
    assert read_traits_or_aggregates(server, "traits") == [LICENSED_TRAIT]
    record = json.loads(file.read_text())
    assert record["placement"] == f"{server.url}/placement"
    (put,) = record["traits"]
    assert (put["provider"], put["trait"]) == (node_uuid(1), LICENSED_TRAIT)
    options = ("--aggregate", "windows", "--format", "json")
    assert run_placement_sync(server, "sync_traits", *options) == 0


def test_placement_sync_reads_aggregates_of_a_remote_nova(server, sqlite_url, monkeypatch, capsys):
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", sqlite_url)
    compute = ["--compute-url", f"{server.url}/compute/v2.1"]
    assert main(["placement", "sync_aggregates", *compute, "--format", "json"]) == 6
    document = json.loads(capsys.readouterr().out)
    assert [problem["about"] for problem in document["problems"]] == ["cn1"]


def test_placement_sync_updates_a_remote_placement(
    server, sqlite_url, sqlite_app, monkeypatch, capsys
):
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", sqlite_url)
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [build_report(1)])
    body = {"aggregate": {"name": "ours"}}
    number = sqlite_app.post_json("/compute/v2.1/os-aggregates", body).json["aggregate"]["id"]
    sqlite_app.post_json(
        f"/compute/v2.1/os-aggregates/{number}/action", {"add_host": {"host": "cn1"}}
    )
    assert main(["placement", "sync_aggregates", "--url", f"{server.url}/placement"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "ours: 1 added (cn1)"
    assert len(read_traits_or_aggregates(server, "aggregates")) == 1


def build_cloud_entry(server: Server, **options: str) -> dict:
    return {
        "auth_type": "admin_token",
        "auth": {"endpoint": f"{server.url}/placement", "token": "admin"},
        "compute_endpoint_override": f"{server.url}/compute/v2.1",
        **options,
    }


def test_placement_sync_accepts_a_cloud_of_clouds_yaml(server, tmp_path, run_command):
    (tmp_path / "clouds.yaml").write_text(
        yaml.safe_dump({"clouds": {"here": build_cloud_entry(server)}})
    )
    done = run_command("placement", "sync_traits", "--os-cloud", "here", "--state", "put.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(f"{LICENSED_TRAIT}: added to 1 provider (cn1)\n")
    assert read_traits_or_aggregates(server, "traits") == [LICENSED_TRAIT]


UNREACHABLE_KEYSTONE_AUTH = {"auth_url": "http://127.0.0.1:1/v3", "username": "a", "password": "b"}
NON_LATIN_AUTH = {"endpoint": "http://127.0.0.1:1", "token": "ü€"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("clouds: 5", "--os-cloud here: openstacksdk cannot use this cloud of clouds.yaml"),
        ("clouds: {here: 5}", "--os-cloud here: openstacksdk cannot use this cloud of clouds.yaml"),
        (
            "clouds: {here: {auth: 5}}",
            "--os-cloud here: openstacksdk cannot use this cloud of clouds.yaml",
        ),
        ("clouds: {here: {auth_type: none such}}", "--os-cloud here: The plugin none such could"),
        ("clouds: [", "was not found. Skipping config file {}: while parsing a flow node"),
        (
            yaml.safe_dump({"clouds": {"here": {"auth": UNREACHABLE_KEYSTONE_AUTH}}}),
            "compute: Connection refused",
        ),
        (
            yaml.safe_dump(
                {"clouds": {"here": {"auth_type": "admin_token", "auth": NON_LATIN_AUTH}}}
            ),
            "http://127.0.0.1:1 cannot be reached: 'latin-1' codec can't encode",
        ),
    ],
    ids=["no clouds", "no cloud", "no auth", "no plugin", "no YAML", "nobody", "token"],
)
@pytest.mark.filterwarnings("ignore:Support for InfluxDB")  # openstacksdk's own
def test_invalid_or_unreachable_cloud_is_reported(text, words, tmp_path, monkeypatch, run_main):
    clouds = tmp_path / "clouds.yaml"
    clouds.write_text(text)
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(clouds))
    status, printed, error = run_main("placement", "sync_traits", "--os-cloud", "here")
    assert (status, printed) == (255, "")
    (line,) = error.splitlines()
    assert line.startswith("placement-sched: ")
    assert words.format(clouds) in line


@pytest.mark.filterwarnings("ignore:Support for InfluxDB")  # openstacksdk's own
def test_url_option_of_placement_sync_overrides_clouds_yaml(server, tmp_path, monkeypatch):
    clouds = {"here": build_cloud_entry(server, placement_endpoint_override="http://127.0.0.1:1")}
    (tmp_path / "clouds.yaml").write_text(yaml.safe_dump({"clouds": clouds}))
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "clouds.yaml"))
    command = ["placement", "sync_aggregates", "--os-cloud", "here"]
    assert main([*command, "--url", f"{server.url}/placement"]) == 0
    assert len(read_traits_or_aggregates(server, "aggregates")) == 1


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--token", "nobody"], 255, "403"),
        (["--url", "{}"], 2, "404 Not Found"),
        (["--url", "{}/compute/v2.1"], 2, "404"),
        (["--compute-url", "{}/placement"], 255, "404"),
        (["--compute-url", "http://127.0.0.1:1"], 255, "does not answer: Connection refused"),
        (["--url", "http://127.0.0.1:1"], 2, "does not answer: Connection refused"),
    ],
    ids=["token", "other path", "no placement", "no nova", "nova is down", "placement is down"],
)
def test_error_of_a_remote_service_is_reported(
    server, capsys, monkeypatch, arguments, status, words
):
    monkeypatch.setattr("placement_sched.clients.session.RETRIES", 0)
    options = [argument.format(server.url) for argument in arguments]
    assert run_placement_sync(server, "sync_aggregates", *options) == status
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("placement-sched: http://127.0.0.1:")
    assert words in line
