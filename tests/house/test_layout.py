# SPDX-License-Identifier: Apache-2.0
"""The top level of the repository, its release notes and the changelog."""

import importlib.util
import subprocess

import pytest

from tests.support.repository import ROOT, read_setup_cfg

pytestmark = pytest.mark.slow

NOTE = """\
prelude: >
    Hosts have {words}.
features:
  - |
    **Colours.** ``host list`` has the column ``colour``.
    It is empty by default.
fixes:
  - A typing error.
"""


def load_changelog_module():
    """Return ``releasenotes/changelog.py``, which is in no package."""
    spec = importlib.util.spec_from_file_location(
        "changelog", ROOT / "releasenotes" / "changelog.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "name", ["setup.cfg", "placement_sched", "alembic", "tests", "api-ref", "releasenotes"]
)
def test_top_level_has_the_files_and_folders_of_an_openstack_project(name):
    path = ROOT / name
    assert path.is_file() if name == "setup.cfg" else any(path.iterdir())


def test_changelog_has_the_text_of_the_release_notes():
    """Edit a note, commit it, then write the changelog."""
    text = load_changelog_module().build_changelog(ROOT)
    assert (ROOT / "CHANGELOG.md").read_text() == text
    assert f"\n## {read_setup_cfg()['metadata']['version']}\n" in text


def test_changelog_has_a_chapter_per_tag_with_the_newest_first(tmp_path):
    def run_git(*arguments):
        identity = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, timeout=60)

    def commit_note(slug, words):
        (notes / f"{slug}.yaml").write_text(NOTE.format(words=words))
        run_git("add", ".")
        run_git("commit", "--quiet", "--message", slug)

    notes = tmp_path / "releasenotes" / "notes"
    notes.mkdir(parents=True)
    (tmp_path / "setup.cfg").write_text("[metadata]\nversion = 0.2.0\n")
    run_git("init", "--quiet")
    commit_note("first-0123456789abcdef", "names")
    run_git("tag", "--annotate", "0.1.0", "--message", "Release 0.1.0")
    commit_note("second-fedcba9876543210", "colours")
    module = load_changelog_module()
    *_, newest, oldest = module.build_changelog(tmp_path).split("\n## ")
    assert (
        newest
        == """\
0.2.0

Hosts have colours.

### New Features

- **Colours.** `host list` has the column `colour`.
  It is empty by default.

### Bug Fixes

- A typing error.
"""
    )
    assert oldest.splitlines()[:3] == ["0.1.0", "", "Hosts have names."]
