# SPDX-License-Identifier: Apache-2.0
"""What README.md tells newcomers to do works."""

import ast
import re
import subprocess
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from placement_sched.cli.main import make_parser
from tests.support.repository import PACKAGE, ROOT
from tests.support.servers import BIN, PROGRAM, start_server

pytestmark = pytest.mark.system

README = (ROOT / "README.md").read_text()
ADDRESS = "http://127.0.0.1:8778"


def code_blocks(language: str) -> list[str]:
    """The fenced blocks of this language, in order."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    return [text for named, text in found if named == language]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A newcomer's working directory, with a server and the client's configuration in it."""
    folder = tmp_path_factory.mktemp("newcomer")
    (folder / ".venv").symlink_to(BIN.parent)
    # The page has the client installed beside; the program is not on the path.
    (folder / "client").mkdir()
    (folder / "client" / "openstack").symlink_to(BIN / "openstack")
    # A slow reader is to find the hosts up all the same.
    variables = {"PATH": "/usr/bin:/bin", "OS_DEFAULT__SERVICE_DOWN_TIME": "1"}
    with start_server(folder=folder, variables=variables, program=PROGRAM) as server:
        (clouds,) = code_blocks("yaml")
        (folder / "clouds.yaml").write_text(clouds.replace(ADDRESS, server.url))
        (folder / "address").write_text(server.url)
        yield folder


def run(folder: Path, script: str) -> str:
    done = subprocess.run(
        [
            "bash",
            "-euo",
            "pipefail",
            "-c",
            script.replace(ADDRESS, (folder / "address").read_text()),
        ],
        cwd=folder,
        env={"PATH": f"{folder / 'client'}:/usr/bin:/bin", "HOME": str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_first_five_minutes_work_from_top_to_bottom(folder):
    parts = []
    for block in code_blocks("sh"):
        parts.append(run(folder, block))
        time.sleep(1.5)  # longer than the server of this test lets hosts be silent
    reports, questions, explanation, client, fleet, room, production = parts
    assert reports.count('"hypervisor_hostname":"cn') == 3
    assert '"allocation_requests":[{' in questions
    assert '"service_host":"cn' in questions
    assert '"outcome":"no_valid_host"' in questions
    assert "MEMORY_MB:1048576" in explanation
    assert "trait:CUSTOM_LICENSED_WINDOWS='required'" in client
    assert "00000003-aaaa-4aaa-8aaa-aaaaaaaaaaaa" in client
    assert "22 hosts passed" in fleet  # of 23: cn2 is disabled
    assert "more fit" in room
    assert "drained in this simulation" in room
    assert "Claimed" in room
    assert "typed" in room  # the flavor of the decision that is listed
    assert (folder / "capacity.html").read_text().startswith("<!DOCTYPE html>")
    assert "the configuration is valid" in production


READERS = {
    "Watch the demo",
    "Put it under an existing placement",
    "Replace nova-scheduler",
    "Write a filter",
    "Find out why a server did not start",
}


def read_screens() -> dict[str, str]:
    """What stands for each reader, by its heading."""
    part = README.partition("\n## Where to begin\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^### (.+)\n((?:(?!^### ).*\n?)+)", part, re.MULTILINE))


def test_each_reader_has_one_screen():
    found = read_screens()
    assert set(found) == READERS
    assert {title: text.count("\n") for title, text in found.items() if text.count("\n") > 42} == {}


def commands_of_section(title: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", read_screens()[title], re.DOTALL | re.MULTILINE)
    return "".join(text for language, text in found if not language).splitlines()


@pytest.mark.parametrize("title", sorted(READERS))
def test_every_command_of_a_screen_is_one_that_there_is(title):
    for line in commands_of_section(title):
        if line.startswith(("echo ", "- ")):
            continue
        words = line.removeprefix("PYTHONPATH=. ").split()
        if words[0] == ".venv/bin/placement-sched":
            assert make_parser(words[1:]).parse_args(words[1:]).run
        else:
            assert words[0] in {"make", "curl", "journalctl", "python3", ".venv/bin/pip"}


def test_the_filter_of_its_screen_works_as_written(tmp_path):
    text = read_screens()["Write a filter"]
    (tmp_path / ".venv").symlink_to(BIN.parent)
    (code,) = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    (config,) = re.findall(r"^```ini\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    (tmp_path / "quiet.py").write_text(code)
    (tmp_path / "quiet.conf").write_text(config)
    (tmp_path / "address").write_text(ADDRESS)
    valid, *shown = run(tmp_path, "\n".join(commands_of_section("Write a filter"))).splitlines()
    assert valid == "the configuration is valid"
    explained = "\n".join(shown)
    assert "QuietHostsFilter" in explained
    assert "10 instances, 10 are too many" in explained


def test_the_picture_has_the_steps_of_the_code_and_their_modules():
    picture = (ROOT / "doc/source/pipeline.svg").read_text()
    assert "(doc/source/pipeline.svg)" in README
    steps = re.findall(r'class="name"[^>]*>(\w+)<', picture)
    assert steps == re.findall(
        r"^    (\w+) {2,}", ast.get_docstring(pipeline_steps()), re.MULTILINE
    )
    paths = re.findall(r'class="file"[^>]*>([\w/.]+)', picture)
    assert len(paths) == len(steps)
    assert [path for path in paths if not (PACKAGE / path).exists()] == []


def pipeline_steps() -> ast.Module:
    return ast.parse((PACKAGE / "scheduler/scheduler.py").read_text())


def test_the_funnel_is_one_that_the_guide_plays():
    (funnel,) = (block for block in code_blocks("") if "No valid host" in block)
    guide = (ROOT / "doc/source/explain.rst").read_text()
    assert textwrap.indent(funnel, "   ") in guide


def test_commands_are_typed_as_they_are_found():
    """Nothing puts the program on the path of who follows the page."""
    code = "".join([*code_blocks(""), *code_blocks("sh")])
    assert re.findall(r"^placement-sched", code, re.MULTILINE) == []


@pytest.mark.parametrize("target", re.findall(r"^make ([\w-]+)", README, re.MULTILINE))
def test_make_targets_exist(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_both_commands_are_named():
    assert {"demo", "test"} <= set(re.findall(r"^make ([\w-]+)", README, re.MULTILINE))


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "MAINTAINING.md"])
def test_links_and_paths_lead_somewhere(document):
    text = (ROOT / document).read_text()
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_modules_that_are_named_exist(document):
    text = (ROOT / document).read_text()
    packages = "|".join(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
    named = re.findall(
        rf"(?<![\w/.<-])(?:placement_sched/)?((?:{packages})/(?:[\w/]+(?:\.py|/))?)", text
    )
    assert named
    assert [path for path in named if not (PACKAGE / path).exists()] == []
    short = set(re.findall(r"`([\w/]+\.py)`", text))  # as `operations/repair.py`
    files = [f"/{path}" for folder in (PACKAGE, ROOT / "tests") for path in folder.rglob("*.py")]
    assert [name for name in short if not any(path.endswith(f"/{name}") for path in files)] == []


def test_paths_and_targets_of_the_recipes_for_maintainers_exist():
    text = (ROOT / "MAINTAINING.md").read_text()
    folders = "alembic|api-ref|bench|deploy|doc|placement_sched|tests"
    paths = re.findall(rf"(?<![\w/.-])((?:{folders})/[\w./-]*\w)", text)
    assert len(paths) > 30
    assert [path for path in paths if not (ROOT / path).exists()] == []
    targets = re.findall(r"(?:^ *|`)make ([a-z-]+)", text, re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text()
    assert targets
    assert [name for name in targets if not re.search(rf"^{name}:", makefile, re.MULTILINE)] == []


def test_commands_of_the_program_exist():
    spoken = set(
        re.findall(
            r"placement-sched ((?:config|db|fleet|placement) \w+|serve|demo|select|explain)", README
        )
    )
    assert len(spoken) > 7
    for command in spoken:
        with pytest.raises(SystemExit) as left:
            make_parser(command.split()).parse_args([*command.split(), "--help"])
        assert left.value.code == 0, command
