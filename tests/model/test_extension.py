# SPDX-License-Identifier: Apache-2.0
"""Discovery of extensions, and their hooks."""

from importlib.metadata import EntryPoint

import pytest

from placement_sched.errors import ConfigurationError
from placement_sched.model import extension
from placement_sched.model.extension import (
    Extension,
    find_extensions,
    list_absent_extensions,
    load_entry_points,
    load_hooks,
)


@pytest.fixture
def set_entry_points(monkeypatch):
    """Return a function that replaces the installed extensions."""

    def set_entry_points(**values):
        points = [EntryPoint(name, value, "group") for name, value in values.items()]
        monkeypatch.setattr(extension, "entry_points", lambda **_: points)
        load_entry_points.cache_clear()

    yield set_entry_points
    monkeypatch.undo()
    load_entry_points.cache_clear()


FIRST = Extension(options=f"{__name__}:OPTIONS")
SECOND = Extension()
THIRD = Extension(gauges="no_such_module:build")
OPTIONS = {"first": ()}


def test_extensions_are_sorted_by_name(set_entry_points):
    set_entry_points(second=f"{__name__}:SECOND", first=f"{__name__}:FIRST")
    assert list(find_extensions().items()) == [("first", FIRST), ("second", SECOND)]


def test_extension_without_its_package_is_skipped_and_reported(set_entry_points):
    set_entry_points(absent="placement_sched.extensions.absent:EXTENSION")
    assert find_extensions() == {}
    assert list_absent_extensions() == [
        "the extension absent is not installed: no module placement_sched.extensions.absent"
    ]


def test_two_extensions_of_one_name_are_an_error(monkeypatch):
    values = (f"{__name__}:FIRST", f"{__name__}:SECOND")
    points = [EntryPoint("load", value, "group") for value in values]
    monkeypatch.setattr(extension, "entry_points", lambda **_: points)
    load_entry_points.cache_clear()
    with pytest.raises(ConfigurationError, match="two extensions are called load: "):
        load_entry_points()
    # A package may be installed twice.
    monkeypatch.setattr(extension, "entry_points", lambda **_: points[:1] * 2)
    assert load_entry_points() == {"load": FIRST}
    load_entry_points.cache_clear()


def test_missing_dependency_of_an_extension_is_an_error(set_entry_points, tmp_path, monkeypatch):
    (tmp_path / "extension_without_dependency.py").write_text("import no_such_dependency\n")
    monkeypatch.syspath_prepend(tmp_path)
    set_entry_points(broken="extension_without_dependency:EXTENSION")
    with pytest.raises(ConfigurationError) as caught:
        find_extensions()
    assert caught.value.detail == (
        "the extension broken (extension_without_dependency:EXTENSION) cannot be loaded: "
        "No module named 'no_such_dependency'"
    )


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (f"{__name__}:OPTIONS", f"{__name__}:OPTIONS is no Extension"),
        (f"{__name__}:NO_SUCH_NAME", "has no attribute 'NO_SUCH_NAME'"),
    ],
)
def test_entry_point_without_an_extension_is_an_error_that_names_it(
    set_entry_points, value, reason
):
    set_entry_points(wrong=value)
    with pytest.raises(ConfigurationError, match="the extension wrong") as caught:
        find_extensions()
    assert reason in caught.value.detail


def test_hooks_of_disabled_extensions_are_left_out(set_entry_points):
    set_entry_points(first=f"{__name__}:FIRST", second=f"{__name__}:SECOND")
    assert load_hooks("options") == [OPTIONS]
    assert load_hooks("options", ["first"]) == []


def test_wrong_path_of_a_hook_is_an_error_that_names_the_extension(set_entry_points):
    set_entry_points(third=f"{__name__}:THIRD")
    with pytest.raises(ConfigurationError) as caught:
        load_hooks("gauges")
    assert caught.value.detail == (
        "the extension third cannot load no_such_module:build (gauges): "
        "No module named 'no_such_module'"
    )
