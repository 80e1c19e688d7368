# SPDX-License-Identifier: Apache-2.0
"""The instructions and figures of README.md are correct."""

import ast
import re
import subprocess
import textwrap
from pathlib import Path

import pytest

from placement_sched.cli.main import make_parser
from tests.support.commands import run_captured
from tests.support.repository import PACKAGE, ROOT
from tests.support.servers import PROGRAM

pytestmark = pytest.mark.system

README_TEXT = (ROOT / "README.md").read_text()
#: A number of a table, with a space between thousands.
NUMBER_PATTERN = re.compile(r"\d[\d .]*\d|\d")
#: A configuration with the filter of the page, and a cloud of a host that it rejects and another.
FILTER_CONFIGURATION = """\
[placement_database]
connection = sqlite:///quiet.db
[filter_scheduler]
available_filters = placement_sched.scheduler.filters.all_filters
available_filters = quiet.QuietHostsFilter
enabled_filters = ComputeFilter, QuietHostsFilter
"""
FLEET_OF_TWO_HOSTS = """\
hosts:
- {host: cn1, vcpus: 8, memory_mb: 8192, local_gb: 100, stats: {num_instances: 10}}
- {host: cn2, vcpus: 8, memory_mb: 8192, local_gb: 100}
"""


def read_code_blocks(language: str) -> list[str]:
    """Return the fenced blocks of this language in order."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", README_TEXT, re.DOTALL | re.MULTILINE)
    return [text for named, text in blocks if named == language]


def read_typed_lines() -> list[str]:
    """Return the console lines of README."""
    return re.sub(r"\\\n\s+", "", "".join(read_code_blocks("console"))).splitlines()


def test_readme_is_short():
    assert README_TEXT.count("\n") <= 150


def test_readme_begins_with_make_demo_and_make_test():
    assert read_typed_lines()[0].startswith("make demo ")
    assert read_typed_lines()[1].startswith("make test ")


def read_rows_of_figures_table() -> list[list[str]]:
    """Return the cells of each row of the table of figures."""
    section = README_TEXT.partition("\n## Why\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\|(.+)\|$", section, re.MULTILINE)[2:]
    return [[cell.strip() for cell in row.split("|")] for row in rows]


@pytest.mark.parametrize("row", read_rows_of_figures_table(), ids=lambda row: row[0][:20])
def test_numbers_in_the_figures_table_of_the_readme_are_on_the_linked_page(row):
    _, *values, source = row
    page = (ROOT / re.search(r"\]\(([^)]+)\)", source)[1]).read_text()
    figures = [
        figure.replace(" ", "") for value in values for figure in NUMBER_PATTERN.findall(value)
    ]
    assert [figure for figure in figures if figure not in re.sub("[ ,]", "", page)] == []


def test_figures_table_of_the_readme_has_five_rows():
    assert len(read_rows_of_figures_table()) == 5


def test_readme_example_filter_explains_its_rejection_as_printed(tmp_path):
    (code,) = read_code_blocks("python")
    (printed,) = (block for block in read_code_blocks("text") if "QuietHostsFilter" in block)
    (tmp_path / "quiet.py").write_text(code)
    (tmp_path / "quiet.conf").write_text(FILTER_CONFIGURATION)
    (tmp_path / "quiet.yaml").write_text(FLEET_OF_TWO_HOSTS)
    run_placement_sched(tmp_path, "fleet load --config-file quiet.conf quiet.yaml")
    explained = run_placement_sched(
        tmp_path, "explain --config-file quiet.conf --vcpus 1 --ram 512 --disk 1"
    )
    assert printed in explained


def run_placement_sched(folder: Path, arguments: str) -> str:
    """Run the program in a folder with a plugin, and return its output."""
    done = run_captured(
        [PROGRAM, *arguments.split()],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "PYTHONPATH": "."},
        stdin=subprocess.DEVNULL,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_pipeline_picture_names_the_steps_of_the_scheduler_module():
    picture = (ROOT / "doc/source/pipeline.svg").read_text()
    assert "image:: pipeline.svg" in (ROOT / "doc/source/overview.rst").read_text()
    steps = re.findall(r'class="name"[^>]*>(\w+)<', picture)
    assert steps == re.findall(
        r"^    (\w+) {2,}", ast.get_docstring(parse_scheduler_module()), re.MULTILINE
    )
    paths = re.findall(r'class="file"[^>]*>([\w/.]+)', picture)
    assert len(paths) == len(steps)
    assert [path for path in paths if not (PACKAGE / path).exists()] == []


def parse_scheduler_module() -> ast.Module:
    return ast.parse((PACKAGE / "scheduler/scheduler.py").read_text())


def test_funnel_of_the_readme_is_on_the_tested_explain_page():
    (funnel,) = (block for block in read_code_blocks("text") if "No valid host" in block)
    guide = (ROOT / "doc/source/explain.rst").read_text()
    assert textwrap.indent(funnel, "   ") in guide


@pytest.mark.parametrize(
    "target", [line.split()[1] for line in read_typed_lines() if line.startswith("make ")]
)
def test_make_targets_of_the_readme_exist(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "MAINTAINING.md"])
def test_relative_links_of_readme_and_contributor_pages_exist(document):
    text = (ROOT / document).read_text()
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_modules_named_in_readme_and_contributing_exist(document):
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


def test_paths_and_make_targets_of_maintaining_md_exist():
    text = (ROOT / "MAINTAINING.md").read_text()
    folders = "alembic|api-ref|bench|deploy|doc|placement_sched|releasenotes|tests"
    paths = re.findall(rf"(?<![\w/.-])((?:{folders})/[\w./-]*\w)", text)
    assert len(paths) > 30
    assert [path for path in paths if not (ROOT / path).exists()] == []
    targets = re.findall(r"(?:^ *|`)make ([a-z-]+)", text, re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text()
    assert targets
    assert [name for name in targets if not re.search(rf"^{name}:", makefile, re.MULTILINE)] == []


@pytest.mark.parametrize(
    "line", [line for line in read_typed_lines() if line.startswith("placement-sched ")]
)
def test_readme_commands_are_accepted_by_the_command_line(line):
    words = line.split()[1:]
    assert make_parser(words).parse_args(words).run
