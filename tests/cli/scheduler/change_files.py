# SPDX-License-Identifier: Apache-2.0
"""Invalid files of changes, and the errors of commands."""

import pytest

from tests.cli.conftest import copy_filled_database
from tests.support.scheduling import make_report

#: Files of changes, and the error of each file.
INVALID_CHANGES_FILES = [
    ("- drain: [cn1]\n- drain: cn1", "f:2: drain: 'cn1' is not a list"),
    ("changes:\n- 5", "f:2: 5 is not an object"),
    ("- add: {count: 2}", "f:1: add: 'like' is required"),
    ("- add:\n    like: cn1\n    count: -2", "f:3: add.count: -2 is less than the minimum of 1"),
    ("- add:\n    like: cn1\n    cuont: 2", "f:3: add: unknown key 'cuont'. Did you mean 'count'?"),
    ("- add:\n    like: cn1\n    xyz: 2", "f:3: add: unknown key 'xyz'. There are: count, like"),
    ("- drian: [cn1]", "f:1: unknown kind of change 'drian'. Did you mean 'drain'?"),
    ("- drain: [cn1, cn2]", "f:1: drain: there is no host 'cn2'. Did you mean 'cn1'?"),
    (
        '[{"drain": ["cn1"]},\n {"drain": ["cn1"], "remove": ["cn1"]}]',
        'f:2: {"drain": ["cn1"], "remove": ["cn1"]} has too many properties: at most 1 property',
    ),
    ("flavors: []\nchanges: {a: 1}", 'f:2: changes: {"a": 1} is not a list'),
    ("chnages: []", "f:1: unknown key 'chnages'. Did you mean 'changes'?"),
]


@pytest.fixture
def get_error(run_cli, monkeypatch, tmp_path):
    """Return a function that runs a failing command on a host, and returns its error."""
    monkeypatch.chdir(tmp_path)

    def run_cli_and_get_error(*arguments: str) -> str:
        status, printed, error = run_cli(*arguments)
        assert (status, printed) == (1, "")
        (line,) = error.splitlines()
        return line.removeprefix("placement-sched: ")

    return run_cli_and_get_error


@pytest.fixture(scope="module")
def sqlite_template(sqlite_template, tmp_path_factory):
    """A host."""
    return copy_filled_database(
        sqlite_template,
        tmp_path_factory.mktemp("cloud"),
        lambda app: app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1")]),
    )


#: Python passes the argument $'\\xff' as this text.
NON_UTF8_ARGUMENT = "\udcff"
