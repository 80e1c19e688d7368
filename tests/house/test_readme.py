# SPDX-License-Identifier: Apache-2.0
"""The instructions and figures of README.md are correct."""

import ast
import re
import textwrap

import pytest

from placement_sched.cli.main import make_parser
from tests.support.repository import PACKAGE, ROOT

pytestmark = pytest.mark.system

README_TEXT = (ROOT / "README.md").read_text()
#: A number of a table, with a space between thousands.
NUMBER_PATTERN = re.compile(r"\d[\d .]*\d|\d")


def read_code_blocks(language: str) -> list[str]:
    """Return the fenced blocks of this language in order."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", README_TEXT, re.DOTALL | re.MULTILINE)
    return [text for named, text in blocks if named == language]


def read_typed_lines() -> list[str]:
    """Return the console lines of README."""
    return re.sub(r"\\\n\s+", "", "".join(read_code_blocks("console"))).splitlines()


def test_readme_is_short():
    assert README_TEXT.count("\n") <= 120


def test_readme_begins_with_a_single_command():
    console = read_code_blocks("console")[0]
    assert console == "make demo CONSOLE=1\n"


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


def test_figures_table_of_the_readme_has_six_rows():
    assert len(read_rows_of_figures_table()) == 6


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
