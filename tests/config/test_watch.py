# SPDX-License-Identifier: Apache-2.0
"""Which files have changed since the last look."""

import os

import pytest

from placement_sched.config.watch import FileWatcher


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "a").write_text("1")
    return tmp_path


def make_watch(directory, **options):
    return FileWatcher(lambda: sorted(map(str, directory.iterdir())), **options)


def test_no_file_has_changed_at_first(directory):
    assert make_watch(directory).changed() == ()


def test_file_changes_are_reported_once(directory):
    watched = make_watch(directory)
    (directory / "b").write_text("1")
    assert watched.changed() == (str(directory / "b"),)
    os.utime(directory / "a", (1, 1))
    assert watched.changed() == (str(directory / "a"),)
    (directory / "b").unlink()
    assert watched.changed() == (str(directory / "b"),)
    assert watched.changed() == ()


def test_watch_is_due_after_the_pause(directory):
    now = [0.0]
    watched = make_watch(directory, pause=2.0, elapsed=lambda: now[0])
    assert not watched.is_due()
    now[0] = 2.0
    assert watched.is_due()
    watched.changed()
    assert not watched.is_due()
