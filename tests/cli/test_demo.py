# SPDX-License-Identifier: Apache-2.0
"""``placement-sched demo`` as a newcomer runs it: a process of its own, with nothing configured."""

import json
import os
import re
import shlex
import signal
import subprocess
import time
import weakref
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from placement_sched.cli.demo import repeat_lost_interrupts
from placement_sched.operations.demo import DISABLED_HOST, DISABLED_REASON, FULL_RACK, SILENT_HOST
from tests.support.servers import PROGRAM, environment, wait_until
from tests.support.versions import LATEST_HEADERS

pytestmark = pytest.mark.slow

LICENSED = re.compile(r"az\d-r06-win\d\d")
GPU = re.compile(r"az\d-r07-gpu\d\d")
#: What a newcomer has, all of it empty.
PLACES = ("home", "work", "tmp")
SNP = "HW_CPU_X86_AMD_SEV_SNP"


@dataclass
class Newcomer:
    """Somebody with an empty home, an empty working directory and an empty temporary directory."""

    place: Path

    def environment(self, **variables: str) -> dict[str, str]:
        for name in PLACES:
            (self.place / name).mkdir(exist_ok=True)
        places = {"HOME": str(self.place / "home"), "TMPDIR": str(self.place / "tmp")}
        inherited = environment()
        for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR"):
            inherited.pop(name, None)
        path = os.pathsep.join([str(Path(PROGRAM).parent), os.environ["PATH"]])
        return {**inherited, "PATH": path, **places, **variables}

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PROGRAM, *arguments],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=240,
            env=self.environment(**variables),
            cwd=self.place / "work",
            check=False,
        )

    def left_behind(self) -> list[Path]:
        """What there is but the three directories themselves."""
        return [path for name in PLACES for path in (self.place / name).rglob("*")]


@pytest.fixture
def newcomer(tmp_path) -> Newcomer:
    return Newcomer(tmp_path)


@pytest.fixture(scope="module")
def shown(tmp_path_factory) -> str:
    """What the demo prints."""
    newcomer = Newcomer(tmp_path_factory.mktemp("shown"))
    done = newcomer.run("demo")
    assert (done.returncode, done.stderr) == (0, "")
    assert newcomer.left_behind() == []
    return done.stdout


@pytest.fixture(scope="module")
def told(tmp_path_factory) -> dict:
    """What the demo prints for machines."""
    newcomer = Newcomer(tmp_path_factory.mktemp("told"))
    done = newcomer.run("demo", "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")
    assert newcomer.left_behind() == []
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> tuple[Newcomer, str]:
    """Somebody who kept the demo in a directory ``my cloud``, and what was printed."""
    newcomer = Newcomer(tmp_path_factory.mktemp("kept"))
    done = newcomer.run("demo", "--keep", "my cloud")
    assert (done.returncode, done.stderr) == (0, "")
    left = {str(path.relative_to(newcomer.place / "work")) for path in newcomer.left_behind()}
    assert left == {"my cloud", "my cloud/demo.conf", "my cloud/placement_sched.db"}
    return newcomer, done.stdout


def request(told: dict, name: str) -> dict:
    (found,) = [one for one in told["requests"] if one["name"] == name]
    return found


def passing(told: dict, name: str) -> list[str]:
    return [host["host"] for host in request(told, name)["explanation"]["hosts"]]


def claimed(told: dict, name: str) -> list[str]:
    return [selection["service_host"] for selection in request(told, name)["claimed"]]


def refused(told: dict, name: str) -> dict[str, str]:
    funnel = request(told, name)["explanation"]["funnel"]
    stages = [*funnel["allocation_candidates"]["steps"], *funnel["filters"]]
    return {entry["host"]: entry["reason"] for stage in stages for entry in stage["rejected"]}


def section(shown: str, number: int) -> str:
    """What is shown of a request, on one line."""
    text = shown.split(f"\n{number}/5  ", maxsplit=1)[1]
    return " ".join(text.split(f"\n{number + 1}/5  ", maxsplit=1)[0].split())


def test_windows_lands_on_licensed_hosts_only(told):
    assert len(passing(told, "windows")) == 36
    assert all(LICENSED.fullmatch(host) for host in passing(told, "windows"))
    assert claimed(told, "windows") == passing(told, "windows")[:1]


def test_plain_never_lands_on_reserved_hosts(told):
    reserved = {
        host
        for host, reason in refused(told, "plain").items()
        if reason == "in a forbidden aggregate"
    }
    aggregates = told["cloud"]["aggregates"]
    assert reserved == {*aggregates["licensed-windows"]["hosts"], *aggregates["gpu"]["hosts"]}
    assert not reserved & set(passing(told, "plain"))
    assert claimed(told, "plain") == passing(told, "plain")[:1]


def test_gpu_lands_on_a_gpu_host_with_one_free(told):
    assert all(GPU.fullmatch(host) for host in passing(told, "gpu"))
    assert claimed(told, "gpu") == passing(told, "gpu")[:1]
    used_up = {
        host for host, reason in refused(told, "gpu").items() if reason.startswith("VGPU: 0 free")
    }
    assert used_up
    assert all(GPU.fullmatch(host) for host in used_up)


def test_ten_instances_get_ten_claims_in_their_zone_on_several_hosts(told):
    ten = request(told, "ten")
    assert [one["instance"] for one in ten["claimed"]] == ten["request_spec"]["instance_uuids"]
    assert len({one["instance"] for one in ten["claimed"]}) == 10
    assert {one["availability_zone"] for one in ten["claimed"]} == {"az2"}
    assert len(set(claimed(told, "ten"))) > 1


@pytest.mark.parametrize("name", ["plain", "windows", "gpu", "ten"])
def test_each_claim_is_of_what_the_flavor_asks(told, name):
    asked = request(told, name)
    flavor = asked["request_spec"]["flavor"]
    for selection in asked["claimed"]:
        allocations = selection["allocation_request"]["allocations"]
        (part,) = allocations.values()
        assert list(allocations) == [selection["compute_node_uuid"]]
        assert part["resources"] == {
            "VCPU": flavor["vcpus"],
            "MEMORY_MB": flavor["memory_mb"],
            "DISK_GB": flavor["root_gb"],
            **({"VGPU": 1} if name == "gpu" else {}),
        }


def test_the_full_rack_the_silent_and_the_disabled_host_are_refused_with_reasons(told):
    reasons = refused(told, "plain")
    assert reasons[DISABLED_HOST] == f"disabled: {DISABLED_REASON}"
    assert reasons[SILENT_HOST] == "no heartbeat for 30 days"
    rack = {reason for host, reason in reasons.items() if host.startswith(FULL_RACK)}
    assert rack == {"MEMORY_MB: 0 free of 516096, 4096 requested"}


def test_the_impossible_one_has_a_single_obstacle(told):
    impossible = request(told, "impossible")
    candidates = impossible["explanation"]["funnel"]["allocation_candidates"]
    (miss,) = candidates["nearest_misses"]
    assert (miss["constraint"], miss["detail"]) == ("required", SNP)
    assert miss["hosts"] > 0
    assert impossible["claimed"] == []
    assert SNP in impossible["refused"]


def test_the_counts_of_each_funnel_follow_from_each_other(told):
    for one in told["requests"]:
        funnel = one["explanation"]["funnel"]
        stages = [*funnel["allocation_candidates"]["steps"], *funnel["filters"]]
        assert stages[0]["before"] == 300
        for stage, after in pairwise(stages):
            assert stage["after"] == after["before"]
        for stage in stages:
            assert stage["before"] - stage["after"] == len(stage["rejected"])
        assert stages[-1]["after"] == len(one["explanation"]["hosts"])


def test_each_request_is_introduced_and_its_best_and_claimed_hosts_are_shown(shown, told):
    lines = [line.rstrip() for line in shown.splitlines()]
    for number, one in enumerate(told["requests"], start=1):
        text = section(shown, number)
        assert text.startswith(one["title"])
        assert f"Request  {one['asks']}" in lines
        assert f"Look at  {one['look_at']}" in lines
        for host in [*passing(told, one["name"])[:3], *claimed(told, one["name"])]:
            assert host in text
        for selection in one["claimed"]:
            assert selection["instance"] in text


def test_refused_hosts_are_counted_by_reason_with_an_example(shown):
    text = section(shown, 1)
    assert f"16 hosts: MEMORY_MB: 0 free of 516096, 4096 requested (e.g. {FULL_RACK}-ssd01)" in text
    assert f"1 host: disabled: {DISABLED_REASON} ({DISABLED_HOST})" in text
    assert f"1 host: no heartbeat for 30 days ({SILENT_HOST})" in text
    assert "48 hosts: in a forbidden aggregate (e.g. az1-r06-win01)" in text


def test_aggregates_are_shown_by_name(shown):
    assert "forbidden_aggregates gpu, licensed-windows in out" in section(shown, 1)
    assert "member_of in:az2" in section(shown, 4)


def test_the_impossible_one_names_its_obstacle(shown, told):
    (miss,) = request(told, "impossible")["explanation"]["funnel"]["allocation_candidates"][
        "nearest_misses"
    ]
    assert (
        f"No valid host {miss['hosts']} hosts meet all constraints but required {SNP}"
    ) in section(shown, 5)


def test_it_is_readable_at_80_columns_without_colours(shown):
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) == 80


@pytest.mark.exhaustive
def test_it_has_colours_where_they_are_wanted(newcomer):
    assert "\x1b[32m█" in newcomer.run("demo", FORCE_COLOR="1", COLORTERM="", TERM="xterm").stdout


@pytest.mark.exhaustive
def test_terminals_without_unicode_get_bars_all_the_same(newcomer):
    done = newcomer.run("demo", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "#" * 16 in done.stdout
    assert done.stdout.isascii()


@pytest.mark.exhaustive
def test_no_configuration_of_the_machine_changes_what_is_shown(newcomer, shown):
    done = newcomer.run(
        "demo",
        OS_PLACEMENT_DATABASE__CONNECTION="postgresql://nobody@127.0.0.1:1/nowhere",
        OS_FILTER_SCHEDULER__ENABLED_FILTERS="AllHostsFilter",
        OS_SCHEDULER__ENABLE_ISOLATED_AGGREGATE_FILTERING="false",
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", shown)


def test_an_interrupt_that_python_drops_is_repeated():
    def interrupted(_gone):
        raise KeyboardInterrupt

    class Collected:
        """Something that is garbage."""

    garbage = [Collected()]
    seen = weakref.ref(garbage[0], interrupted)

    def lose():
        with repeat_lost_interrupts():
            garbage.clear()  # what the callback raises is dropped here
            time.sleep(60)

    with pytest.raises(KeyboardInterrupt):
        lose()
    assert seen() is None


@pytest.mark.exhaustive
def test_nothing_is_left_behind_when_it_is_terminated(newcomer):
    # It prints more than the pipe takes, and so waits to be read: it cannot end before the signal.
    with subprocess.Popen(
        [PROGRAM, "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pipesize=4096,
        text=True,
        env=newcomer.environment(),
        cwd=newcomer.place / "work",
    ) as process:
        # With the database in it, the directory is one that is removed at the end.
        assert wait_until(lambda: list((newcomer.place / "tmp").glob("*/placement_sched.db")), 120)
        process.send_signal(signal.SIGTERM)
        _, complaint = process.communicate(timeout=240)
    assert (process.returncode, complaint) == (130, "placement-sched: interrupted\n")
    assert newcomer.left_behind() == []


def test_the_kept_database_can_be_explained_with_the_command_that_is_shown(kept):
    newcomer, printed = kept
    command = re.search(r"placement-sched (explain [^\n]*)\\\n([^\n]*)", printed)
    done = newcomer.run(*shlex.split("".join(command.groups())), "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")
    explanation = json.loads(done.stdout)
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
def test_the_kept_database_can_be_served_and_has_the_claims(kept, serve, told):
    newcomer, printed = kept
    config = newcomer.place / "work" / "my cloud" / "demo.conf"
    assert "placement-sched serve --config-file 'my cloud/demo.conf'" in printed
    path = re.search(r"http://127.0.0.1:8778(/placement/allocation_candidates[^']*)", printed)[1]
    server = serve("--config-file", str(config))
    status, _, body = server.get(path, **LATEST_HEADERS)
    assert (status, len(json.loads(body)["allocation_requests"])) == (200, 3)
    (plain,) = request(told, "plain")["claimed"]
    _, _, body = server.get(f"/placement/allocations/{plain['instance']}")
    assert json.loads(body)["allocations"].keys() == {plain["compute_node_uuid"]}


@pytest.mark.exhaustive
def test_explain_names_aggregates_on_the_database_and_by_address(kept, serve):
    newcomer, _ = kept
    config = str(newcomer.place / "work" / "my cloud" / "demo.conf")
    server = serve("--config-file", config)
    for where in (("--config-file", config), ("--url", server.url)):
        done = newcomer.run("explain", *where, "--vcpus", "1", "--zone", "az3")
        assert (done.returncode, done.stderr) == (0, "")
        assert "member_of in:az3" in done.stdout
        assert "member_of !in:gpu,licensed-windows" in done.stdout


def test_a_demo_that_was_kept_is_not_overwritten(kept):
    newcomer, _ = kept
    done = newcomer.run("demo", "--keep", "my cloud")
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"placement-sched: my cloud/\S+ already exists; .*\n", done.stderr)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("directory", "complaint"),
    [
        ("a-file", "--keep a-file: File exists"),
        ("away", "away/demo.conf: No such file or directory"),
        ("why?", "why?: '?' and control characters are not allowed in a database URL"),
    ],
)
def test_a_directory_that_cannot_be_is_one_line(newcomer, directory, complaint):
    newcomer.environment()
    work = newcomer.place / "work"
    (work / "a-file").write_text("")
    (work / "away").mkdir()
    (work / "away" / "demo.conf").symlink_to("nowhere/demo.conf")
    done = newcomer.run("demo", "--keep", directory)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"placement-sched: {complaint}\n"


def text_of(asked: Request) -> str:
    """The answer, nothing while the server does not listen yet."""
    try:
        with urlopen(asked, timeout=60) as answer:
            return answer.read().decode()
    except OSError:
        return ""


@pytest.mark.exhaustive
def test_the_demo_ends_with_how_to_open_its_console(newcomer):
    done = newcomer.run("demo")
    *_, last = done.stdout.rstrip().splitlines()
    assert last == "and open the address of its console: http://127.0.0.1:8778/"
    ending = done.stdout.partition("End of the demo")[2]
    assert "no server runs" in ending
    assert "\n  placement-sched demo --console\n  make demo CONSOLE=1\n" in ending


@pytest.mark.exhaustive
def test_commands_at_the_end_are_those_that_the_shell_finds(newcomer):
    """As after ``make demo``, when the program is not on the path."""
    called = newcomer.place / "work/.venv"
    newcomer.environment()
    called.symlink_to(Path(PROGRAM).parents[1])
    done = subprocess.run(
        [".venv/bin/placement-sched", "demo"],
        capture_output=True,
        text=True,
        timeout=240,
        env=newcomer.environment(PATH="/usr/bin:/bin"),
        cwd=called.parent,
        check=True,
    )
    assert "\n  .venv/bin/placement-sched demo --keep DIR\n" in done.stdout


@pytest.mark.exhaustive
@pytest.mark.parametrize("host", [(), ("--host", "0.0.0.0")], ids=["this machine", "all"])
def test_the_cloud_can_be_looked_at_in_a_browser_until_a_signal_ends_it(newcomer, host):
    command = [PROGRAM, "demo", "--console", *host]
    environ = newcomer.environment(OS_PLACEMENT_DATABASE__CONNECTION="sqlite:////nowhere/at.db")
    with subprocess.Popen(
        command, env=environ, cwd=newcomer.place / "work", stdout=subprocess.PIPE, text=True
    ) as demo:
        try:
            lines = iter(demo.stdout.readline, "")
            said = next(line for line in lines if line.startswith("the console is at "))
            asked = Request(said.split()[-1], headers={"Accept": "text/html"})
            assert wait_until(lambda: "<h1>Cloud</h1>" in text_of(asked))
            demo.send_signal(signal.SIGINT)
            assert demo.wait(timeout=60) == 0
        finally:
            demo.kill()
    # What stevedore knows of installed packages is kept by every server.
    assert [path for path in newcomer.left_behind() if ".cache" not in path.parts] == []


def test_a_console_is_not_for_machines(newcomer):
    done = newcomer.run("demo", "--console", "--format", "json")
    assert done.returncode == 1
    assert "--console cannot be combined with --format json" in done.stderr
