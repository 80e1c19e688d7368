# SPDX-License-Identifier: Apache-2.0
"""The lint reports source files without the license line, and adds the line."""

import pytest

from tests.house.spdx import LICENSE, list_source_files, main
from tests.support.repository import ROOT

#: Files without and with the line.
FILES = {
    "placement_sched/a.py": ('"""A module."""\n', f'# {LICENSE}\n"""A module."""\n'),
    "placement_sched/empty.py": ("", f"# {LICENSE}\n"),
    "placement_sched/console/static/a.js": ("let a;\n", f"// {LICENSE}\nlet a;\n"),
    "placement_sched/console/static/a.css": ("a {}\n", f"/* {LICENSE} */\na {{}}\n"),
    "tests/a.sh": ("#!/bin/sh\ntrue\n", f"#!/bin/sh\n# {LICENSE}\ntrue\n"),
    ".ci/run": ("#!/usr/bin/env bash\n# CI\n", f"#!/usr/bin/env bash\n# {LICENSE}\n# CI\n"),
}
OTHERS = {"doc/build/third_party.py": "import this\n", "doc/source/page.rst": "Page\n"}


@pytest.fixture
def tree(tmp_path):
    for name, text in {**{name: pair[0] for name, pair in FILES.items()}, **OTHERS}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_files_without_the_license_line_are_reported(tree, capsys):
    assert main([], tree) == 1
    lines = capsys.readouterr().out.splitlines()
    assert {line.partition(":")[0] for line in lines} == set(FILES)
    assert {(tree / name).read_text() for name in FILES} == {pair[0] for pair in FILES.values()}


def test_write_option_adds_the_license_line_only_once(tree):
    for _ in range(2):
        assert main(["--write"], tree) == 0
        assert {name: (tree / name).read_text() for name in FILES} == {
            name: pair[1] for name, pair in FILES.items()
        }
    assert {name: (tree / name).read_text() for name in OTHERS} == OTHERS
    assert main([], tree) == 0


def test_every_kind_of_source_file_is_found():
    paths = {str(path.relative_to(ROOT)) for path in list_source_files(ROOT)}
    assert {"placement_sched/cli/main.py", "tests/lanes.py", "setup.py", ".ci/run"} < paths
    assert {"placement_sched/console/static/map.js", "alembic/script.py.mako"} < paths
    assert not [name for name in paths if name.startswith(".venv")]
