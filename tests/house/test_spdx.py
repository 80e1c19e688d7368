# SPDX-License-Identifier: Apache-2.0
"""The lint reports source files without the license line, and adds the line."""

import pytest

from tests.house.spdx import LICENSE_TEXT, list_source_files, main
from tests.support.repository import ROOT

#: Files without and with the line.
LICENSE_TEXT_PAIRS = {
    "placement_sched/a.py": ('"""A module."""\n', f'# {LICENSE_TEXT}\n"""A module."""\n'),
    "placement_sched/empty.py": ("", f"# {LICENSE_TEXT}\n"),
    "placement_sched/console/static/a.js": ("let a;\n", f"// {LICENSE_TEXT}\nlet a;\n"),
    "placement_sched/console/static/a.css": ("a {}\n", f"/* {LICENSE_TEXT} */\na {{}}\n"),
    "tests/a.sh": ("#!/bin/sh\ntrue\n", f"#!/bin/sh\n# {LICENSE_TEXT}\ntrue\n"),
    ".ci/run": ("#!/usr/bin/env bash\n# CI\n", f"#!/usr/bin/env bash\n# {LICENSE_TEXT}\n# CI\n"),
}
UNCHECKED_TEXTS = {"doc/build/third_party.py": "import this\n", "doc/source/page.rst": "Page\n"}


@pytest.fixture
def folder(tmp_path):
    for name, text in {
        **{name: pair[0] for name, pair in LICENSE_TEXT_PAIRS.items()},
        **UNCHECKED_TEXTS,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_files_without_the_license_line_are_reported(folder, capsys):
    assert main([], folder) == 1
    lines = capsys.readouterr().out.splitlines()
    assert {line.partition(":")[0] for line in lines} == set(LICENSE_TEXT_PAIRS)
    assert {(folder / name).read_text() for name in LICENSE_TEXT_PAIRS} == {
        pair[0] for pair in LICENSE_TEXT_PAIRS.values()
    }


def test_write_option_adds_the_license_line_only_once(folder):
    for _ in range(2):
        assert main(["--write"], folder) == 0
        assert {name: (folder / name).read_text() for name in LICENSE_TEXT_PAIRS} == {
            name: pair[1] for name, pair in LICENSE_TEXT_PAIRS.items()
        }
    assert {name: (folder / name).read_text() for name in UNCHECKED_TEXTS} == UNCHECKED_TEXTS
    assert main([], folder) == 0


def test_every_kind_of_source_file_is_found():
    paths = {str(path.relative_to(ROOT)) for path in list_source_files(ROOT)}
    assert {"placement_sched/cli/main.py", "tests/lanes.py", "setup.py", ".ci/run"} < paths
    assert {"placement_sched/cli/report/report.css", "alembic/script.py.mako"} < paths
    assert not [name for name in paths if name.startswith(".venv")]
