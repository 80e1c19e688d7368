# SPDX-License-Identifier: Apache-2.0
"""Discovery of extensions, and their hooks."""

import logging
from importlib.metadata import EntryPoint

import pytest

from placement_sched.model import extension
from placement_sched.model.extension import Extension, find_extensions, load_hooks


@pytest.fixture
def set_entry_points(monkeypatch):
    """Return a function that replaces the installed extensions."""

    def set_entry_points(**values):
        points = [EntryPoint(name, value, "group") for name, value in values.items()]
        monkeypatch.setattr(extension, "entry_points", lambda **_: points)
        find_extensions.cache_clear()

    yield set_entry_points
    monkeypatch.undo()
    find_extensions.cache_clear()


FIRST = Extension(options=f"{__name__}:OPTIONS")
SECOND = Extension()
OPTIONS = {"first": ()}


def test_extensions_are_sorted_by_name(set_entry_points):
    set_entry_points(second=f"{__name__}:SECOND", first=f"{__name__}:FIRST")
    assert list(find_extensions().items()) == [("first", FIRST), ("second", SECOND)]


def test_extension_without_its_package_is_skipped_with_a_line_in_the_log(set_entry_points, caplog):
    caplog.set_level(logging.INFO)
    set_entry_points(absent="placement_sched.extensions.absent:EXTENSION")
    assert find_extensions() == {}
    assert [record.getMessage() for record in caplog.records] == [
        "the extension absent is not installed: no module placement_sched.extensions.absent"
    ]


def test_missing_dependency_of_an_extension_is_an_error(set_entry_points, tmp_path, monkeypatch):
    (tmp_path / "extension_without_dependency.py").write_text("import no_such_dependency\n")
    monkeypatch.syspath_prepend(tmp_path)
    set_entry_points(broken="extension_without_dependency:EXTENSION")
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
        find_extensions()


def test_hooks_of_disabled_extensions_are_left_out(set_entry_points):
    set_entry_points(first=f"{__name__}:FIRST", second=f"{__name__}:SECOND")
    assert load_hooks("options") == [OPTIONS]
    assert load_hooks("options", ["first"]) == []
