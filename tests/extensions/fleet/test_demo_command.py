# SPDX-License-Identifier: Apache-2.0
"""``placement-sched demo`` in its own process, without any configuration."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from itertools import pairwise
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from placement_sched.cli.main import main
from placement_sched.extensions.fleet import demo_command
from placement_sched.extensions.fleet.demo import (
    DISABLED_HOST,
    DISABLED_REASON,
    FULL_RACK,
    SILENT_HOST,
)
from tests.support.commands import run_captured
from tests.support.servers import PROGRAM, build_environment, wait_until
from tests.support.versions import LATEST_HEADERS

pytestmark = pytest.mark.slow

LICENSED_HOST_PATTERN = re.compile(r"az\d-r06-win\d\d")
GPU_HOST_PATTERN = re.compile(r"az\d-r07-gpu\d\d")
#: The directories of a new user, all empty.
DEMO_USER_FOLDERS = ("home", "work", "tmp")
SEV_ES_TRAIT = "HW_CPU_X86_AMD_SEV_ES"


@dataclass
class DemoUser:
    """A user with an empty home, working directory and temporary directory."""

    folder: Path

    def environment(self, **variables: str) -> dict[str, str]:
        for name in DEMO_USER_FOLDERS:
            (self.folder / name).mkdir(exist_ok=True)
        places = {"HOME": str(self.folder / "home"), "TMPDIR": str(self.folder / "tmp")}
        inherited = build_environment()
        for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR"):
            inherited.pop(name, None)
        path = os.pathsep.join([str(Path(PROGRAM).parent), os.environ["PATH"]])
        return {**inherited, "PATH": path, **places, **variables}

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return run_captured(
            [PROGRAM, *arguments],
            stdin=subprocess.DEVNULL,
            env=self.environment(**variables),
            cwd=self.folder / "work",
        )

    def list_files(self) -> list[Path]:
        """Return all files except the three directories."""
        return [path for name in DEMO_USER_FOLDERS for path in (self.folder / name).rglob("*")]


@pytest.fixture
def demo_user(tmp_path) -> DemoUser:
    return DemoUser(tmp_path)


@pytest.fixture(scope="module")
def demo_json() -> dict:
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as output:
        for name in [name for name in os.environ if name.startswith("OS_")]:
            patch.delenv(name)
        assert main(["demo", "--format", "json"]) == 0
    return json.loads(output.getvalue())


@pytest.fixture(scope="module")
def kept_demo_user(tmp_path_factory) -> tuple[DemoUser, str]:
    """A user who kept the demo in the directory ``my cloud``, and the output."""
    user = DemoUser(tmp_path_factory.mktemp("kept"))
    done = user.run("demo", "--keep", "my cloud")
    assert (done.returncode, done.stderr) == (0, "")
    files = {str(path.relative_to(user.folder / "work")) for path in user.list_files()}
    assert files == {"my cloud", "my cloud/demo.conf", "my cloud/placement_sched.db"}
    return user, done.stdout


@pytest.fixture
def demo_output(kept_demo_user) -> str:
    return kept_demo_user[1]


@pytest.fixture
def run_command_in_demo_folder(
    kept_demo_user, run_main, monkeypatch
) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs a command in the user's directory, in this process."""
    monkeypatch.chdir(kept_demo_user[0].folder / "work")
    return run_main


def find_demo_request(document: dict, name: str) -> dict:
    (request,) = [request for request in document["requests"] if request["name"] == name]
    return request


def list_passing_hosts(document: dict, name: str) -> list[str]:
    return [host["host"] for host in find_demo_request(document, name)["explanation"]["hosts"]]


def list_claimed_hosts(document: dict, name: str) -> list[str]:
    return [selection["service_host"] for selection in find_demo_request(document, name)["claimed"]]


def list_rejected_hosts(document: dict, name: str) -> dict[str, str]:
    funnel = find_demo_request(document, name)["explanation"]["funnel"]
    stages = [*funnel["allocation_candidates"]["steps"], *funnel["filters"]]
    return {entry["host"]: entry["reason"] for stage in stages for entry in stage["rejected"]}


def extract_output_of_request(output: str, number: int) -> str:
    """Return the text of a request without line breaks."""
    text = output.split(f"\n{number}/5  ", maxsplit=1)[1]
    return " ".join(text.split(f"\n{number + 1}/5  ", maxsplit=1)[0].split())


def test_windows_request_of_the_demo_gets_only_licensed_hosts(demo_json):
    assert len(list_passing_hosts(demo_json, "windows")) == 36
    assert all(
        LICENSED_HOST_PATTERN.fullmatch(host) for host in list_passing_hosts(demo_json, "windows")
    )
    assert list_claimed_hosts(demo_json, "windows") == list_passing_hosts(demo_json, "windows")[:1]


def test_demo_request_without_traits_gets_no_reserved_host(demo_json):
    reserved = {
        host
        for host, reason in list_rejected_hosts(demo_json, "plain").items()
        if reason == "in a forbidden aggregate"
    }
    aggregates = demo_json["cloud"]["aggregates"]
    assert reserved == {*aggregates["licensed-windows"]["hosts"], *aggregates["gpu"]["hosts"]}
    assert not reserved & set(list_passing_hosts(demo_json, "plain"))
    assert list_claimed_hosts(demo_json, "plain") == list_passing_hosts(demo_json, "plain")[:1]


def test_gpu_request_of_the_demo_gets_a_host_with_a_free_gpu(demo_json):
    assert all(GPU_HOST_PATTERN.fullmatch(host) for host in list_passing_hosts(demo_json, "gpu"))
    assert list_claimed_hosts(demo_json, "gpu") == list_passing_hosts(demo_json, "gpu")[:1]
    used_up = {
        host
        for host, reason in list_rejected_hosts(demo_json, "gpu").items()
        if reason.startswith("VGPU: 0 free")
    }
    assert used_up
    assert all(GPU_HOST_PATTERN.fullmatch(host) for host in used_up)


def test_ten_instances_of_the_demo_are_claimed_in_their_zone(demo_json):
    ten = find_demo_request(demo_json, "ten")
    assert [claim["instance"] for claim in ten["claimed"]] == ten["request_spec"]["instance_uuids"]
    assert len({claim["instance"] for claim in ten["claimed"]}) == 10
    assert {claim["availability_zone"] for claim in ten["claimed"]} == {"az2"}
    assert len(set(list_claimed_hosts(demo_json, "ten"))) > 1


@pytest.mark.parametrize("name", ["plain", "windows", "gpu", "ten"])
def test_amounts_claimed_by_the_demo_equal_those_of_the_flavor(demo_json, name):
    request = find_demo_request(demo_json, name)
    flavor = request["request_spec"]["flavor"]
    for selection in request["claimed"]:
        allocations = selection["allocation_request"]["allocations"]
        (part,) = allocations.values()
        assert list(allocations) == [selection["compute_node_uuid"]]
        assert part["resources"] == {
            "VCPU": flavor["vcpus"],
            "MEMORY_MB": flavor["memory_mb"],
            "DISK_GB": flavor["root_gb"],
            **({"VGPU": 1} if name == "gpu" else {}),
        }


def test_demo_rejects_hosts_of_the_full_rack_and_silent_and_disabled_hosts(demo_json):
    reasons = list_rejected_hosts(demo_json, "plain")
    assert reasons[DISABLED_HOST] == f"disabled: {DISABLED_REASON}"
    assert reasons[SILENT_HOST] == "no heartbeat for 30 days"
    rack = {reason for host, reason in reasons.items() if host.startswith(FULL_RACK)}
    assert rack == {"MEMORY_MB: 0 free of 516096, 4096 requested"}


def test_impossible_demo_request_fails_only_because_of_one_missing_trait(demo_json):
    impossible = find_demo_request(demo_json, "impossible")
    candidates = impossible["explanation"]["funnel"]["allocation_candidates"]
    (miss,) = candidates["nearest_misses"]
    assert (miss["constraint"], miss["detail"]) == ("required", SEV_ES_TRAIT)
    assert miss["hosts"] > 0
    assert impossible["claimed"] == []
    assert SEV_ES_TRAIT in impossible["rejection"]


def test_each_stage_of_the_demo_begins_with_the_hosts_left_by_the_stage_before(demo_json):
    for request in demo_json["requests"]:
        funnel = request["explanation"]["funnel"]
        stages = [*funnel["allocation_candidates"]["steps"], *funnel["filters"]]
        assert stages[0]["before"] == 300
        for stage, after in pairwise(stages):
            assert stage["after"] == after["before"]
        for stage in stages:
            assert stage["before"] - stage["after"] == len(stage["rejected"])
        assert stages[-1]["after"] == len(request["explanation"]["hosts"])


def test_demo_prints_best_and_claimed_hosts_of_each_request(demo_output, demo_json):
    lines = [line.rstrip() for line in demo_output.splitlines()]
    for number, request in enumerate(demo_json["requests"], start=1):
        text = extract_output_of_request(demo_output, number)
        assert text.startswith(request["title"])
        assert f"Request  {request['description']}" in lines
        assert f"Look at  {request['look_at']}" in lines
        for host in [
            *list_passing_hosts(demo_json, request["name"])[:3],
            *list_claimed_hosts(demo_json, request["name"]),
        ]:
            assert host in text
        for selection in request["claimed"]:
            assert selection["instance"] in text


def test_demo_prints_rejection_reasons_aggregates_and_the_reason_for_no_valid_host(
    demo_output, demo_json
):
    text = extract_output_of_request(demo_output, 1)
    assert f"16 hosts: MEMORY_MB: 0 free of 516096, 4096 requested (e.g. {FULL_RACK}-ssd01)" in text
    assert f"1 host: disabled: {DISABLED_REASON} ({DISABLED_HOST})" in text
    assert f"1 host: no heartbeat for 30 days ({SILENT_HOST})" in text
    assert "48 hosts: in a forbidden aggregate (e.g. az1-r06-win01)" in text
    assert "forbidden_aggregates gpu, licensed-windows in out" in text
    assert "member_of in:az2" in extract_output_of_request(demo_output, 4)
    funnel = find_demo_request(demo_json, "impossible")["explanation"]["funnel"]
    (miss,) = funnel["allocation_candidates"]["nearest_misses"]
    words = f"No valid host {miss['hosts']} hosts meet all constraints but required {SEV_ES_TRAIT}"
    assert words in extract_output_of_request(demo_output, 5)


def test_demo_output_fits_80_columns_without_colours(demo_output):
    assert "\x1b" not in demo_output
    requests = demo_output.partition("Next steps")[0]  # followed by commands that are not wrapped
    assert max(map(len, requests.splitlines())) == 80


@pytest.mark.exhaustive
def test_demo_ignores_configuration_from_the_environment(demo_user, demo_output):
    done = demo_user.run(
        "demo",
        OS_PLACEMENT_DATABASE__CONNECTION="postgresql://nobody@127.0.0.1:1/nowhere",
        OS_FILTER_SCHEDULER__ENABLED_FILTERS="AllHostsFilter",
        OS_SCHEDULER__ENABLE_ISOLATED_AGGREGATE_FILTERING="false",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.partition("End of the demo")[0] == demo_output.partition("Next steps")[0]


@pytest.mark.exhaustive
def test_demo_that_gets_sigterm_leaves_no_files(demo_user):
    # The output exceeds the pipe, so the demo cannot end before the signal.
    with subprocess.Popen(
        [PROGRAM, "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pipesize=4096,
        text=True,
        env=demo_user.environment(),
        cwd=demo_user.folder / "work",
    ) as process:
        # Once it has the database, the demo removes the directory at its end.
        assert wait_until(
            lambda: list((demo_user.folder / "tmp").glob("*/placement_sched.db")), 120
        )
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate(timeout=240)
    assert (process.returncode, error) == (130, "placement-sched: interrupted\n")
    assert demo_user.list_files() == []


def test_printed_explain_command_selects_a_host_of_the_kept_demo_database(
    run_command_in_demo_folder, demo_output
):
    command = re.search(r"placement-sched (explain [^\n]*)\\\n([^\n]*)", demo_output)
    words = shlex.split("".join(command.groups()))
    status, printed, error = run_command_in_demo_folder(*words, "--format", "json")
    assert (status, error) == (0, "")
    explanation = json.loads(printed)
    assert explanation["outcome"] == "selected"
    assert explanation["funnel"]["allocation_candidates"]["providers"] == 300
    assert all(host["host"].startswith("az1-") for host in explanation["hosts"])
    (applied,) = [
        report
        for report in explanation["funnel"]["request_filters"]
        if report["name"] == "forbidden_aggregates"
    ]
    assert len(applied["changes"]["forbidden_aggregates"]) == 2


@pytest.mark.exhaustive
def test_kept_demo_database_is_served_with_the_claims(kept_demo_user, serve, demo_json):
    user, printed = kept_demo_user
    config = user.folder / "work" / "my cloud" / "demo.conf"
    assert "placement-sched serve --config-file 'my cloud/demo.conf'" in printed
    path = re.search(r"http://127.0.0.1:8778(/placement/allocation_candidates[^']*)", printed)[1]
    server = serve("--config-file", str(config))
    status, _, body = server.get(path, **LATEST_HEADERS)
    assert (status, len(json.loads(body)["allocation_requests"])) == (200, 3)
    (plain,) = find_demo_request(demo_json, "plain")["claimed"]
    _, _, body = server.get(f"/placement/allocations/{plain['instance']}")
    assert json.loads(body)["allocations"].keys() == {plain["compute_node_uuid"]}


def test_demo_does_not_overwrite_a_kept_demo(run_command_in_demo_folder):
    status, printed, error = run_command_in_demo_folder("demo", "--keep", "my cloud")
    assert (status, printed) == (1, "")
    assert re.fullmatch(r"placement-sched: my cloud/\S+ already exists. .*\n", error)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("directory", "error"),
    [
        ("a-file", "--keep a-file: File exists"),
        ("away", "away/demo.conf: No such file or directory"),
        ("why?", "why?: '?' and control characters are not allowed in a database URL"),
    ],
)
def test_invalid_directory_of_demo_keep_is_reported_in_one_line(demo_user, directory, error):
    demo_user.environment()
    work = demo_user.folder / "work"
    (work / "a-file").write_text("")
    (work / "away").mkdir()
    (work / "away" / "demo.conf").symlink_to("nowhere/demo.conf")
    done = demo_user.run("demo", "--keep", directory)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"placement-sched: {error}\n"


def read_response_text(request: Request) -> str:
    """Return the response, or an empty text if the server does not listen yet."""
    try:
        with urlopen(request, timeout=60) as response:
            return response.read().decode()
    except OSError:
        return ""


@pytest.mark.exhaustive
def test_demo_output_ends_with_the_address_of_the_console(demo_user):
    done = demo_user.run("demo")
    assert demo_user.list_files() == []
    *_, last = done.stdout.rstrip().splitlines()
    assert last == "and open the address of its console: http://127.0.0.1:8778/"
    ending = done.stdout.partition("End of the demo")[2]
    assert "no server runs" in ending
    assert "\n  placement-sched demo --console\n  make demo CONSOLE=1\n" in ending


@pytest.mark.exhaustive
def test_commands_printed_by_the_demo_have_the_path_of_the_program(demo_user):
    """``make demo`` runs the program by its path."""
    called = demo_user.folder / "work/.venv"
    demo_user.environment()
    called.symlink_to(Path(PROGRAM).parents[1])
    done = run_captured(
        [".venv/bin/placement-sched", "demo"],
        env=demo_user.environment(PATH="/usr/bin:/bin"),
        cwd=called.parent,
        check=True,
    )
    assert "\n  .venv/bin/placement-sched demo --keep DIR\n" in done.stdout


@contextmanager
def occupy_port(port: int) -> Iterator[bool]:
    """Listen on a port, and yield whether it was free."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
            listener.listen()
        except OSError:
            yield False
        else:
            yield True


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("options", "is_port_in_use"),
    [((), False), (("--host", "0.0.0.0"), True), (("--port", "0"), True)],
    ids=["this machine", "all", "port"],
)
def test_demo_console_is_served_until_a_signal(demo_user, options, is_port_in_use):
    """Only a case uses the port of the demo, as the cases may run at the same time."""
    command = [PROGRAM, "demo", "--console", *options]
    environ = demo_user.environment(OS_PLACEMENT_DATABASE__CONNECTION="sqlite:////nowhere/at.db")
    with ExitStack() as stack:
        is_occupied = is_port_in_use and stack.enter_context(occupy_port(8778))
        work = demo_user.folder / "work"
        demo = stack.enter_context(
            subprocess.Popen(command, env=environ, cwd=work, stdout=subprocess.PIPE, text=True)
        )
        try:
            lines = iter(demo.stdout.readline, "")
            line = next(line for line in lines if line.startswith("the console is at "))
            request = Request(line.split()[-1], headers={"Accept": "text/html"})
            assert not is_occupied or not request.host.endswith(":8778")
            assert wait_until(lambda: "<h1>Overview</h1>" in read_response_text(request))
            demo.send_signal(signal.SIGINT)
            assert demo.wait(timeout=60) == 0
        finally:
            demo.kill()
    # Every server keeps stevedore's cache of installed packages.
    assert [path for path in demo_user.list_files() if ".cache" not in path.parts] == []


def test_demo_rejects_console_with_json(run_main):
    status, _, error = run_main("demo", "--console", "--format", "json")
    assert status == 2
    assert "--console cannot be combined with --format json" in error


def test_demo_rejects_console_if_it_is_not_installed(run_main, monkeypatch):
    monkeypatch.setattr(demo_command, "find_extensions", dict)
    status, _, error = run_main("demo", "--console")
    assert status == 1
    assert "--console needs the extension console, which is not installed" in error


def test_demo_rejects_a_port_without_the_console(run_main):
    status, _, error = run_main("demo", "--port", "8779")
    assert (status, error) == (2, "placement-sched: --port needs --console\n")
