# SPDX-License-Identifier: Apache-2.0
"""``fleet fetch`` against a server, as people and programs use it."""

import json
import re
import textwrap
from datetime import timedelta

import pytest
import yaml

from placement_sched.extensions.fleet import fetch_command
from placement_sched.extensions.fleet.demo import sample_cloud
from placement_sched.model.clock import utcnow
from placement_sched.schemas.yaml_file import to_yaml
from tests.extensions.fleet.fleet_file import FLEET_FILE_TEXT
from tests.support.repository import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Support for InfluxDB"),  # openstacksdk's own
]


@pytest.fixture
def cloud_text(request):
    """Return the fleet file of the cloud."""
    return getattr(request, "param", lambda: FLEET_FILE_TEXT)()


@pytest.fixture
def fetch(serve, run_cli, tmp_path, monkeypatch, cloud_text):
    """Return a function that fetches the cloud ``prod``."""
    server = serve()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f.yaml").write_text(cloud_text)
    assert run_cli("fleet", "load", "f.yaml")[0] == 0
    cloud = {
        "auth_type": "admin_token",
        "auth": {"endpoint": f"{server.url}/placement", "token": "admin"},
        "compute_endpoint_override": f"{server.url}/compute/v2.1",
        "image_endpoint_override": f"{server.url}/image",
    }
    # openstacksdk searches only the working directory of its import.
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "clouds.yaml"))
    (tmp_path / "clouds.yaml").write_text(yaml.safe_dump({"clouds": {"prod": cloud}}))

    def fetch(*arguments, cloud="prod"):
        return run_cli("fleet", "fetch", "--os-cloud", cloud, *arguments)

    return fetch


def list_files(folder):
    return {path.name for path in folder.iterdir() if "cloud" in path.name} - {"clouds.yaml"}


def test_fetch_writes_a_file_and_shows_counts_and_what_is_missing(fetch, run_cli, tmp_path):
    status, printed, error = fetch("cloud.yaml")
    assert (status, error) == (0, "")
    lines = {" ".join(line.split()) for line in printed.splitlines()}
    assert {"hosts 3", "providers 3", "servers 1", "flavors 1", "images 0"} <= lines
    assert run_cli("fleet", "load", "--dry-run", "cloud.yaml")[0] == 0
    assert list_files(tmp_path) == {"cloud.yaml"}
    # The second reading reuses the providers without servers of the last minute.
    status, printed, _ = fetch("cloud.yaml", "-f", "json")
    document = json.loads(printed)
    assert document["counts"]["providers not read again"] == 2
    assert document["missing"][0].keys() == {"missing", "reason", "weakens"}
    missing = {fact["missing"] for fact in document["missing"]}
    assert "NUMA cells and huge pages of hosts" in missing


@pytest.mark.parametrize(
    "cloud_text", [lambda: to_yaml(sample_cloud(utcnow()))], ids=["demo"], indirect=True
)
def test_counts_of_the_guide_are_the_counts_of_the_demo(fetch, monkeypatch):
    # Servers that changed in the last minute need another call.
    monkeypatch.setattr(fetch_command, "utcnow", lambda: utcnow() + timedelta(hours=1))
    status, printed, _ = fetch("cloud.yaml")
    counts = printed.partition("\nMissing ")[0]
    page = (ROOT / "doc/source/look.rst").read_text()
    sample = page.partition(" fetch --os-cloud prod cloud.yaml\n")[2].partition("\n\n")[0]

    def drop_time(text):
        return re.sub(r"(?m)^(seconds +)[0-9.]+$", r"\1", text)

    assert (status, drop_time(counts)) == (0, drop_time(textwrap.dedent(sample)))


def test_anonymised_fetch_writes_names_only_to_the_file_of_names(fetch, run_cli, tmp_path):
    options = ("share.yaml", "--anonymize", "--names", "names.json", "-f", "json")
    assert fetch(*options)[::2] == (0, "")
    text = (tmp_path / "share.yaml").read_text()
    assert set(re.findall(r"\w+", text)) & {"cn1", "cn2", "small", "web", "prod"} == set()
    assert "cn1" in (tmp_path / "names.json").read_text()
    assert {path.name for path in tmp_path.iterdir() if "share" in path.name} == {"share.yaml"}
    assert run_cli("fleet", "load", "--dry-run", "share.yaml")[0] == 0
    status, printed, _ = fetch(*options)
    assert (status, json.loads(printed)["counts"]["providers not read again"]) == (0, 2)
    again = (tmp_path / "share.yaml").read_text()
    assert yaml.safe_load(again)["hosts"] == yaml.safe_load(text)["hosts"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--anonymize",), "--anonymize and --names FILE require each other"),
        (("--names", "other.json"), "--anonymize and --names FILE require each other"),
        (("--anonymize", "--names", "f.yaml"), "f.yaml is not a file of names"),
        (("--anonymize", "--names", "other.json"), "the file of names has no cloud-"),
        ((), "share.yaml is a file of the cloud cloud-"),
    ],
    ids=["no file", "no option", "no file of names", "of another cloud", "not anonymised"],
)
def test_wrong_file_of_names_leaves_the_earlier_file(fetch, tmp_path, options, words):
    assert fetch("share.yaml", "--anonymize", "--names", "names.json")[0] == 0
    old_text = (tmp_path / "share.yaml").read_text()
    status, _, error = fetch("share.yaml", *options)
    assert (status, (tmp_path / "share.yaml").read_text()) == (2, old_text)
    assert words in error


def test_unknown_cloud_is_a_usage_error_with_the_nearest_name(fetch, tmp_path):
    status, _, error = fetch("cloud.yaml", cloud="prdo")
    assert status == 2
    assert "Cloud prdo was not found" in error
    assert "prod" in error
    assert list_files(tmp_path) == set()


@pytest.mark.parametrize("text", ["", "version: 2\n", FLEET_FILE_TEXT])
def test_file_that_was_not_fetched_is_a_usage_error(fetch, tmp_path, text):
    (tmp_path / "cloud.yaml").write_text(text)
    status, _, error = fetch("cloud.yaml")
    assert (status, (tmp_path / "cloud.yaml").read_text()) == (2, text)
    assert "cloud.yaml" in error


@pytest.mark.parametrize("step", ["read_cloud", "build_file"])
@pytest.mark.parametrize("failure", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_interrupted_fetch_leaves_the_earlier_file(fetch, tmp_path, monkeypatch, failure, step):
    assert fetch("cloud.yaml")[0] == 0
    old_text = (tmp_path / "cloud.yaml").read_text()

    def fail(*_arguments, **_options):
        raise failure

    monkeypatch.setattr(fetch_command, step, fail)
    assert fetch("cloud.yaml")[0] != 0
    assert (tmp_path / "cloud.yaml").read_text() == old_text
    assert list_files(tmp_path) == {"cloud.yaml"}


def test_missing_folder_is_found_old_text_the_first_call(fetch, monkeypatch):
    monkeypatch.setattr(fetch_command, "read_cloud", lambda *_: pytest.fail("it was read"))
    status, _, error = fetch("none/cloud.yaml")
    assert (status, error.strip()) == (
        2, "placement-sched: none/cloud.yaml: No such file or directory"
    )  # fmt: skip


@pytest.mark.parametrize("option", [("--parallel", "0"), ("--parallel", "x"), ("--rate", "-1")])
def test_invalid_options_are_usage_errors(run_cli, option):
    status, _, error = run_cli("fleet", "fetch", "--os-cloud", "prod", "cloud.yaml", *option)
    assert status == 2
    assert option[0] in error


@pytest.mark.parametrize(
    "cloud_text", [(ROOT / "examples/small_cloud/cloud.yaml").read_text], indirect=True
)
def test_failed_server_of_a_fetched_cloud_is_explained_as_printed(fetch, run_cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert fetch("cloud.yaml")[0] == 0
    page = (ROOT / "doc/source/no_valid_host.rst").read_text()
    answer = page.partition("cloud.yaml\n   ...\n")[2].partition("\n   $")[0]
    server = "5f2c9a7e-3b1d-4c68-9e20-7a8d6b4f1c35"
    status, printed, _ = run_cli("explain", "--server", server, "--fleet", "cloud.yaml")
    assert status == 0
    assert textwrap.dedent(answer) in printed
