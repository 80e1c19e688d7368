# SPDX-License-Identifier: Apache-2.0
"""Every wait of the tests has a deadline."""

import ast
import configparser
from collections.abc import Iterator

import pytest

from tests.support.repository import ROOT

pytestmark = pytest.mark.slow

#: The functions of :mod:`subprocess` that wait for a process.
WAITING_FUNCTIONS = {"run", "call", "check_call", "check_output"}
#: Functions that a waiting loop may call to find its deadline.
CLOCK_FUNCTIONS = {"monotonic", "perf_counter", "time"}


def get_called_function_name(call: ast.AST) -> str | None:
    """Return the last part of the name of the called function, or None if this is no call."""
    function = call.func if isinstance(call, ast.Call) else None
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else None


def find_waits_without_a_deadline(tree: ast.AST) -> Iterator[ast.Call | ast.While]:
    """Yield the calls and loops that wait without a deadline."""
    for call in ast.walk(tree):
        if isinstance(call, ast.While):
            called = {get_called_function_name(node) for node in ast.walk(call)}
            if "sleep" in called and not called & CLOCK_FUNCTIONS:
                yield call
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        if any(keyword.arg in {"timeout", None} for keyword in call.keywords):
            continue
        owner, name = call.func.value, call.func.attr
        of_module = (
            isinstance(owner, ast.Name) and owner.id == "subprocess" and name in WAITING_FUNCTIONS
        )
        if of_module or name == "communicate" or (name in {"wait", "join"} and not call.args):
            yield call


@pytest.mark.parametrize(
    ("code", "wait_count"),
    [
        ("subprocess.run(['a'])", 1),
        ("subprocess.run(['a'], timeout=1)", 0),
        ("process.communicate()", 1),
        ("process.communicate(timeout=1)", 0),
        ("process.wait()", 1),
        ("event.wait(1)", 0),
        ("thread.join()", 1),
        ("', '.join(names)", 0),
        ("while not there(): time.sleep(1)", 1),
        ("while True:\n  if there(): break\n  sleep(1)", 1),
        ("while not there() and monotonic() < end: time.sleep(1)", 0),
        ("while True:\n  assert time.monotonic() < end\n  time.sleep(1)", 0),
        ("while parts: parts.pop()", 0),
    ],
)
def test_wait_without_a_deadline_is_reported(code, wait_count):
    assert len(list(find_waits_without_a_deadline(ast.parse(code)))) == wait_count


def test_every_wait_of_the_tests_has_a_deadline():
    waits_without_a_deadline = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for call in find_waits_without_a_deadline(ast.parse(path.read_text()))
    ]
    assert waits_without_a_deadline == []


def test_every_test_has_a_deadline(pytestconfig):
    options = configparser.ConfigParser()
    options.read(ROOT / "setup.cfg")
    assert 0 < int(options["tool:pytest"]["timeout"]) <= 600
    assert pytestconfig.pluginmanager.hasplugin("timeout")
