# SPDX-License-Identifier: Apache-2.0
"""The operator's guide builds, and contains everything that is generated."""

import html
import re
import subprocess
import sys
from pathlib import Path

import pytest

from placement_sched import limits
from placement_sched.api.policy_rules import RULES
from placement_sched.config import options as core
from placement_sched.db.tables import metadata
from placement_sched.scheduler import plugins
from placement_sched.scheduler.filters import all_filters
from placement_sched.scheduler.policies.selectors import all_selectors
from placement_sched.scheduler.request_filters import all_request_filters
from placement_sched.scheduler.weights import all_weighers
from tests.support.repository import PACKAGE, ROOT

pytestmark = pytest.mark.system

DOC = ROOT / "doc"
API_REF_FOLDER = ROOT / "api-ref" / "source"


@pytest.fixture(scope="module")
def built_guide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("guide")
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", DOC / "source", target]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return target


def read_page_text(page: Path) -> str:
    """Return the text of a page, without its markup."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", page.read_text())).split())


#: The plugins of each page.
PLUGINS_BY_PAGE = {
    "plugins.html": [*all_filters(), *all_weighers(), *all_request_filters()],
    "scheduler_policies.html": all_selectors(),
}


@pytest.mark.parametrize("page", PLUGINS_BY_PAGE)
def test_plugins_are_documented_with_their_options(built_guide, page):
    text = read_page_text(built_guide / page)
    for kind in PLUGINS_BY_PAGE[page]:
        assert f"{kind.__module__}.{kind.__qualname__}" in text
        assert " ".join(kind.__doc__.split("\n")[0].split()).replace("``", "") in text
        for group, option in kind.options:
            assert f"[{group}] {option.dest}" in text


def read_section_text(page: Path, title: str) -> str:
    """Return the text of the section of this title, without its markup."""
    anchor = title.replace("_", "-")
    _, _, rest = page.read_text().partition(f'<section id="{anchor}">')
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", rest.partition("</section>")[0])).split())


def test_request_filters_are_documented_in_their_order(built_guide):
    page = built_guide / "plugins.html"
    for kind in all_request_filters():
        text = read_section_text(page, kind.name)
        assert text.startswith(kind.name)
        for name in (kind.name, *kind.aliases, kind.__name__):
            assert f" {name}" in text
        for sentence in " ".join(kind.__doc__.split()).replace("``", "").split(". "):
            assert sentence.rstrip(".") in text
        for group, option in kind.options:
            assert f"[{group}] {option.dest} (default {option.default}" in text
            assert " ".join(option.help.split()) in text
    section_ids = re.findall(r'<section id="([\w-]+)">\n<h3>', page.read_text())
    names = [kind.name.replace("_", "-") for kind in all_request_filters()]
    assert [name for name in section_ids if name in names] == names


def test_plugins_page_shows_generated_queries_and_rejections_of_requests(built_guide):
    page = built_guide / "plugins.html"
    hardware = read_section_text(page, "requested-hardware")
    assert "hw:tpm_version=2.0 hw:tpm_model=tpm-crb required=COMPUTE_SECURITY_TPM_2_0," in hardware
    assert "PCPU:2,VCPU:2" in hardware
    assert "400" not in hardware
    rejected = read_section_text(page, "contradictory-requests")
    assert rejected.count("400: ") == 5
    ignored = read_section_text(page, "what-is-ignored")
    assert (ignored.count("ignored: "), ignored.count("400: ")) == (4, 0)
    assert "flavor extra spec 'hw:tpm_version'" in rejected
    assert "image property 'hw_tpm_version'" in rejected


def test_every_option_is_documented(built_guide):
    text = read_page_text(built_guide / "options.html")
    for listing in (core.list_opts(), plugins.list_opts()):
        for _, options in listing:
            assert [option.dest for option in options if option.dest not in text] == []


def test_every_error_code_is_documented(built_guide):
    text = read_page_text(built_guide / "limits.html")
    codes = {
        code
        for path in PACKAGE.rglob("*.py")
        for code in re.findall(r'code ?= ?"((?:placement|scheduler)\.\w[\w.]*)"', path.read_text())
    }
    assert len(codes) > 5
    assert {code for code in codes if code not in text} == set()


def test_limits_are_documented_with_their_values(built_guide):
    text = read_page_text(built_guide / "limits.html")
    source = Path(limits.__file__).read_text()
    comments = re.findall(r"^#: (.+)\n(MAX_\w+)", source, re.MULTILINE)
    rows = {
        f"{comment} {int(getattr(limits, name)):,}".replace("``", "") for comment, name in comments
    }
    assert len(comments) == len(re.findall(r"^MAX_", source, re.MULTILINE))
    assert {row for row in rows if row not in text} == set()


def test_database_tables_and_policy_rules_are_documented(built_guide):
    tables, rules = (
        read_page_text(built_guide / "database.html"),
        read_page_text(built_guide / "options.html"),
    )
    assert [name for name in metadata.tables if name not in tables] == []
    assert [rule.name for rule in RULES if rule.name not in rules] == []


def test_every_design_decision_is_linked_from_the_roadmap(built_guide):
    page = (built_guide / "roadmap.html").read_text()
    decisions = sorted((DOC / "decisions").glob("*.md"))
    assert decisions
    assert [path.name for path in decisions if path.name not in page] == []


def find_link_targets(role: str, source: Path) -> set[str]:
    """Return the targets of this role in the pages of a folder."""
    text = "\n".join(page.read_text() for page in source.rglob("*.rst"))
    found = re.findall(rf":{role}:`([^`]+)`", text)
    return {re.sub(r"(?s).*<(.*)>", r"\1", target) for target in found}


def test_links_to_the_api_reference_have_targets():
    pages = find_link_targets("api-ref", DOC / "source")
    assert pages
    assert [page for page in pages if not (API_REF_FOLDER / f"{page}.rst").exists()] == []


def test_links_of_the_api_reference_to_the_guide_have_targets(built_guide):
    for target in find_link_targets("guide", API_REF_FOLDER):
        page, _, anchor = target.partition("#")
        text = (built_guide / f"{page}.html").read_text()
        assert f'id="{anchor}"' in text or not anchor, page


@pytest.mark.parametrize(
    "page",
    sorted(API_REF_FOLDER.rglob("*.rst")),
    ids=lambda page: str(page.relative_to(API_REF_FOLDER).with_suffix("")),
)
def test_each_page_of_the_api_reference_links_to_the_guide(page):
    assert ":guide:`" in page.read_text()


#: Pages of the guide that are about no route.
PAGES_WITHOUT_ROUTES = {"options", "roadmap"}


@pytest.mark.parametrize(
    "page",
    [
        page
        for page in sorted((DOC / "source").glob("*.rst"))
        if page.stem not in PAGES_WITHOUT_ROUTES
    ],
    ids=lambda page: page.stem,
)
def test_each_guide_page_on_routes_links_to_the_api_reference(page):
    assert ":api-ref:`" in page.read_text()


def test_every_guide_page_is_linked_from_the_index(built_guide):
    index = (DOC / "source" / "index.rst").read_text()
    listed = set(re.findall(r"^   (\w+)$", index, re.MULTILINE))
    assert {path.stem for path in (DOC / "source").glob("*.rst")} == listed | {"index"}


def test_guide_is_short():
    pages = list((DOC / "source").glob("*.rst"))
    assert len(pages) <= 42
    words_by_page = {page.stem: len(re.findall(r"\S*\w\S*", page.read_text())) for page in pages}
    # The pages of the extensions load and traces have a limit of their own.
    assert max(words_by_page.pop(name) for name in ("load", "traces")) <= 1_200
    assert sum(words_by_page.values()) <= 40_000


def test_modules_named_in_the_guide_exist():
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
