"""The operator's guide builds, and nothing that it generates is missing from it."""

import html
import re
import subprocess
import sys
from pathlib import Path

import pytest

from placement_sched.api.rules import RULES
from placement_sched.config import catalogue
from placement_sched.db.tables import metadata
from placement_sched.scheduler import loading
from placement_sched.scheduler.filters import all_filters
from placement_sched.scheduler.request_filters import all_request_filters
from placement_sched.scheduler.weights import all_weighers
from tests.house.tree import PACKAGE, ROOT

DOC = ROOT / "doc"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("guide")
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", DOC / "source", target]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return target


def words(page: Path) -> str:
    """Return the text of a page, without its markup."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", page.read_text())).split())


def test_every_plugin_is_told_of_with_its_options(built):
    text = words(built / "plugins.html")
    for kind in (*all_filters(), *all_weighers(), *all_request_filters()):
        assert f"{kind.__module__}.{kind.__qualname__}" in text
        assert " ".join(kind.__doc__.split("\n")[0].split()).replace("``", "") in text
        for group, option in kind.options:
            assert f"[{group}] {option.dest}" in text


def test_every_option_is_told_of(built):
    text = words(built / "options.html")
    for listing in (catalogue.list_opts(), loading.list_opts()):
        for _, options in listing:
            assert [one.dest for one in options if one.dest not in text] == []


def test_every_error_code_is_told_of(built):
    text = words(built / "errors.html")
    spoken = {
        code
        for path in PACKAGE.rglob("*.py")
        for code in re.findall(r'code ?= ?"((?:placement|scheduler)\.\w[\w.]*)"', path.read_text())
    }
    assert len(spoken) > 5
    assert {code for code in spoken if code not in text} == set()


def test_every_table_and_policy_rule_is_told_of(built):
    tables, rules = words(built / "database.html"), words(built / "policies.html")
    assert [name for name in metadata.tables if name not in tables] == []
    assert [rule.name for rule in RULES if rule.name not in rules] == []


def test_every_decision_is_linked(built):
    page = (built / "decisions.html").read_text()
    decisions = sorted((DOC / "decisions").glob("*.md"))
    assert decisions
    assert [path.name for path in decisions if path.name not in page] == []


def test_every_page_of_the_guide_is_reached_from_its_index(built):
    index = (DOC / "source" / "index.rst").read_text()
    listed = set(re.findall(r"^   (\w+)$", index, re.MULTILINE))
    assert {path.stem for path in (DOC / "source").glob("*.rst")} == listed | {"index"}


def test_modules_that_the_guide_names_exist():
    named = {
        path
        for page in (*(DOC / "source").glob("*.rst"), *(DOC / "decisions").glob("*.md"))
        for path in re.findall(
            r"(?<![\w/.])((?:scheduler|candidates|db|api|store|model|cli)/\w[\w/]*\.py)",
            page.read_text(),
        )
    }
    assert named
    assert {path for path in named if not (PACKAGE / path).exists()} == set()
