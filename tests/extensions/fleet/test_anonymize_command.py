# SPDX-License-Identifier: Apache-2.0
"""``fleet anonymize``, ``fleet names`` and the option ``--names``."""

import json
import re

import pytest
import yaml

pytestmark = pytest.mark.slow

CLOUD = """\
flavors: [{name: acme.small, vcpus: 1, memory_mb: 512, extra_specs: {trait:CUSTOM_ACME: required}}]
hosts:
- {host: acme-1, vcpus: 8, memory_mb: 4096, last_seen_up: "2099-01-01T00:00:00Z"}
- {host: acme-2, vcpus: 8, memory_mb: 4096, last_seen_up: "2099-01-01T00:00:00Z",
   traits: [CUSTOM_ACME]}
- {host: acme-3, vcpus: 8, memory_mb: 4096, last_seen_up: "2099-01-01T00:00:00Z",
   traits: [CUSTOM_ACME]}
aggregates: [{name: acme zone, availability_zone: lima, hosts: "acme-[1-2]"}]
"""


@pytest.fixture
def run(tmp_path, monkeypatch, run_cli):
    """Return a function that runs a command on a database with a cloud."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cloud.yaml").write_text(CLOUD)
    assert run_cli("fleet", "load", "cloud.yaml")[0] == 0
    return run_cli


@pytest.fixture
def run_on_shared_cloud(run, tmp_path, monkeypatch):
    """Return a function that runs a command on the anonymised cloud."""
    assert run("fleet", "anonymize", "cloud.yaml", "share.yaml", "--names", "names.json")[0] == 0

    def run_on_other(*arguments):
        with monkeypatch.context() as context:
            url = f"sqlite:///{tmp_path}/shared.db"
            context.setenv("OS_PLACEMENT_DATABASE__CONNECTION", url)
            return run(*arguments)

    assert run_on_other("db", "sync")[0] == 0
    assert run_on_other("fleet", "load", "share.yaml")[0] == 0
    return run_on_other


def test_dump_and_an_existing_file_are_anonymised_alike(run, tmp_path):
    options = ("--names", "names.json")
    assert run("fleet", "dump", "dumped.yaml", "--anonymize", *options) == (0, "", "")
    assert run("fleet", "dump", "plain.yaml") == (0, "", "")
    assert run("fleet", "anonymize", "plain.yaml", "share.yaml", *options) == (0, "", "")
    text = (tmp_path / "share.yaml").read_text()
    assert text == (tmp_path / "dumped.yaml").read_text()
    assert "acme" not in text.lower()
    assert run("fleet", "anonymize", "plain.yaml", *options) == (0, text, "")
    document = yaml.safe_load(text)
    assert [host["vcpus"] for host in document["hosts"]] == [8, 8]
    assert document["aggregates"][0]["metadata"] == {"availability_zone": "az1"}


QUESTIONS = [
    ("explain", "acme.small", "--zone", "lima"),
    ("explain", "acme.small", "--host", "acme-1", "--host", "acme-3"),
    ("explain", "acme.small", "--property", "trait:CUSTOM_ACME=forbidden", "-f", "json"),
    ("explain", "--vcpus", "99", "--ram", "1", "--disk", "0", "--force-host", "acme-2"),
    ("capacity", "acme.small", "--per", "zone"),
    ("plan", "--change", "drain=acme-2", "--flavor", "acme.small"),
    ("host", "list"),
    ("host", "show", "acme-2", "-f", "json"),
]


@pytest.mark.parametrize("question", QUESTIONS, ids=" ".join)
def test_answers_with_names_equal_the_original(run, run_on_shared_cloud, question):
    def drop_times(output):
        status, text, errors = output
        lines = text.replace("shared.db", "placement_sched.db").splitlines()
        return (
            status,
            [line for line in lines if not re.search("elapsed_ms|changed_at", line)],
            errors,
        )

    expected = drop_times(run(*question))
    assert drop_times(run_on_shared_cloud(*question, "--names", "names.json")) == expected


def test_fleet_names_translates_texts_and_json(run, run_on_shared_cloud, tmp_path, monkeypatch):
    labels = json.loads((tmp_path / "names.json").read_text())["names"]
    host, trait = labels["host"]["acme-1"], labels["custom"]["CUSTOM_ACME"]
    (tmp_path / "answer.txt").write_text(f"- {host} in az1 has no {trait}.\n")
    expected = "- acme-1 in lima has no CUSTOM_ACME.\n"
    assert run("fleet", "names", "names.json", "answer.txt") == (0, expected, "")
    (tmp_path / "answer.json").write_text(json.dumps({host: [trait, 5]}))
    status, printed, _ = run("fleet", "names", "names.json", "answer.json")
    assert (status, json.loads(printed)) == (0, {"acme-1": ["CUSTOM_ACME", 5]})


@pytest.mark.parametrize("content", [None, "no JSON"], ids=["absent", "no file of names"])
@pytest.mark.parametrize(
    "command",
    [
        ("explain", "acme.small", "--names", "wrong.json"),
        ("fleet", "names", "wrong.json", "cloud.yaml"),
        ("fleet", "dump", "share.yaml", "--anonymize", "--names", "wrong.json"),
        ("fleet", "anonymize", "cloud.yaml", "share.yaml", "--names", "wrong.json"),
    ],
    ids=" ".join,
)
def test_wrong_file_of_names_is_wrong_usage(run, tmp_path, command, content):
    if content is not None:
        (tmp_path / "wrong.json").write_text(content)
    elif "share.yaml" in command:
        (tmp_path / "wrong.json").mkdir()
    status, printed, errors = run(*command)
    assert (status, printed, errors.count("\n")) == (2, "", 1)
    assert "wrong.json" in errors
    assert not (tmp_path / "share.yaml").exists()


def test_file_of_names_of_another_cloud_is_wrong_usage(run, run_on_shared_cloud):
    assert run("fleet", "dump", "other.yaml", "--anonymize", "--names", "other.json")[0] == 0
    status, printed, errors = run_on_shared_cloud("host", "list", "--names", "other.json")
    assert (status, printed) == (2, "")
    assert "the file of names has no aggregate-" in errors
    assert run("fleet", "names", "other.json", "share.yaml")[0] == 2


@pytest.mark.parametrize("options", [("--anonymize",), ("--names", "n.json")], ids=" ".join)
def test_anonymize_and_names_require_each_other(run, options):
    message = "placement-sched: --anonymize and --names FILE require each other\n"
    assert run("fleet", "dump", *options) == (2, "", message)


def test_file_that_cannot_be_written_is_an_error_without_a_traceback(run, tmp_path):
    status, _, errors = run("fleet", "dump", "--anonymize", "--names", "no/such/names.json")
    assert (status, errors) == (
        1,
        "placement-sched: no/such/names.json: No such file or directory\n",
    )
    assert run("fleet", "dump", "no/such", "--anonymize", "--names", "names.json")[0] == 1
