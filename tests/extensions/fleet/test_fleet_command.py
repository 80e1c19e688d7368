# SPDX-License-Identifier: Apache-2.0
"""``fleet load`` and ``fleet dump``, as people and programs use them."""

import json
from functools import partial

import pytest

from placement_sched.cli.main import main
from tests.extensions.fleet.fleet_file import FLEET_FILE_TEXT

pytestmark = pytest.mark.slow


@pytest.fixture
def run_fleet_command(tmp_path, monkeypatch, run_cli):
    """Return a function that runs a command on an empty database, next to a fleet file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f.yaml").write_text(FLEET_FILE_TEXT)
    return partial(run_cli, "fleet")


def test_fleet_load_prints_changes_with_ranges_of_host_names(run_fleet_command, sqlite_url):
    message = ["+ flavor small", "+ host cn[1-3]", "+ instance web", "+ allocations of web"]
    message.append(f"{sqlite_url}: 6 changed")
    assert run_fleet_command("load", "f.yaml") == (0, "".join(f"{line}\n" for line in message), "")
    assert run_fleet_command("load", "f.yaml") == (0, f"{sqlite_url}: nothing changed\n", "")


def test_fleet_load_dry_run_only_prints_a_diff(run_fleet_command, tmp_path, sqlite_url):
    run_fleet_command("load", "f.yaml")
    (tmp_path / "g.yaml").write_text(FLEET_FILE_TEXT.replace("4096", "8192").replace("512", "600"))
    message = (
        "~ flavor small\n"
        "    memory_mb: 512 -> 600\n"
        "~ host cn[1-3]\n"
        "    free_ram_mb: 4096 -> 8192\n"
        "    memory_mb: 4096 -> 8192\n"
    )
    for _ in range(2):
        status, printed, _ = run_fleet_command("load", "--dry-run", "g.yaml")
        assert status == 0
        for line in message.splitlines():
            assert line in printed.splitlines()
        assert printed.endswith("would change\n")


def test_fleet_load_shows_changed_fields_of_a_service(run_fleet_command, tmp_path, sqlite_url):
    run_fleet_command("load", "f.yaml")
    (tmp_path / "g.yaml").write_text(
        "services: [{host: cn1, status: disabled, disabled_reason: a faulty DIMM}]\n"
    )
    message = [
        "~ service nova-compute of cn1",
        "    disabled: False -> True",
        "    disabled_reason: none -> a faulty DIMM",
    ]
    assert run_fleet_command("load", "g.yaml")[1].splitlines()[:3] == message


def test_fleet_load_as_json_lists_every_change(run_fleet_command):
    status, printed, _ = run_fleet_command("load", "f.yaml", "--format", "json", "--dry-run")
    document = json.loads(printed)
    assert (status, document["dry_run"]) == (0, True)
    assert [change["name"] for change in document["changes"] if change["kind"] == "host"] == [
        "cn1",
        "cn2",
        "cn3",
    ]
    assert document["changes"][0] == {
        "change": "new",
        "kind": "flavor",
        "name": "small",
        "details": {},
    }


def test_fleet_load_of_a_fleet_dump_changes_nothing(run_fleet_command, tmp_path):
    run_fleet_command("load", "f.yaml")
    assert run_fleet_command("dump", "out.yaml") == (0, "", "")
    assert run_fleet_command("dump") == (0, (tmp_path / "out.yaml").read_text(), "")
    assert "- host: cn[1-3]" in (tmp_path / "out.yaml").read_text()
    assert run_fleet_command("load", "out.yaml")[1].endswith("nothing changed\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("load", "wrong.yaml"), "wrong.yaml:2:10: 'x' is not an integer (at hosts.0.vcpus)"),
        (("load", "none.yaml"), "none.yaml: No such file or directory"),
        (
            ("load", "latin.yaml"),
            (
                "latin.yaml is not UTF-8: 'utf-8' codec can't decode byte 0xe4 in position 7: "
                "unexpected end of data"
            ),
        ),
        (("dump", "no/such/folder"), "no/such/folder: No such file or directory"),
    ],
    ids=["fault", "absent", "no text", "no folder"],
)
def test_invalid_fleet_file_prints_one_error_line(run_fleet_command, tmp_path, arguments, message):
    (tmp_path / "wrong.yaml").write_text("hosts:\n- vcpus: x\n  host: a\n")
    (tmp_path / "latin.yaml").write_bytes(b"\xef\xbb\xbf# \xc3\xa4\r\n#\xe4")
    assert run_fleet_command(*arguments) == (1, "", f"placement-sched: {message}\n")


def test_first_fleet_load_creates_the_embedded_database(run_command, tmp_path):
    done = run_command("fleet", "load", "-", stdin=FLEET_FILE_TEXT)
    assert (done.returncode, done.stderr) == (0, "")
    assert "+ host cn[1-3]" in done.stdout
    assert (tmp_path / "placement_sched.db").is_file()


def test_fleet_load_dry_run_creates_no_database(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "f.yaml").write_text(FLEET_FILE_TEXT)
    assert main(["fleet", "load", "--dry-run", "f.yaml"]) == 0
    message = capsys.readouterr()
    assert [file.name for file in tmp_path.iterdir()] == ["f.yaml"]
    assert main(["fleet", "load", "f.yaml"]) == 0
    assert message.err == ""
    assert message.out.replace("would change", "changed") == capsys.readouterr().out
    assert message.out.endswith("sqlite:///placement_sched.db: 6 would change\n")


def test_fleet_load_fails_if_no_database_can_be_created(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", f"sqlite:///{tmp_path}/no/such.db")
    (tmp_path / "f.yaml").write_text(FLEET_FILE_TEXT)
    for dry_run in ([], ["--dry-run"]):
        assert main(["fleet", "load", *dry_run, str(tmp_path / "f.yaml")]) == 1
        assert capsys.readouterr().out == ""


def test_fleet_load_shortens_long_values_in_a_diff(run_fleet_command, tmp_path):
    run_fleet_command("load", "f.yaml")
    (tmp_path / "g.yaml").write_text(f"flavors: [{{name: small, description: {'x' * 99}}}]")
    printed = run_fleet_command("load", "g.yaml")[1]
    assert f"    description: none -> {'x' * 60}...\n" in printed
