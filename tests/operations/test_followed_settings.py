"""What the process that starts workers tells of the files that it follows."""

import pytest

from placement_sched.operations import followed_settings
from placement_sched.operations.followed_settings import JUST, FollowedSettings
from placement_sched.scheduler.loading import full_conf, read_settings
from tests.servers import rewrite


@pytest.fixture
def now(monkeypatch):
    """A clock that is set by hand."""
    time = [1000.0]
    monkeypatch.setattr(followed_settings, "monotonic", lambda: time[0])
    return time


def test_a_signal_tells_what_is_wrong_but_not_what_was_told_just_before(
    tmp_path, sqlite_url, now, caplog
):
    file = tmp_path / "nova.conf"
    known = f"[placement_database]\nconnection = {sqlite_url}\n"
    file.write_text(known)
    followed = FollowedSettings(read_settings([str(file)], full_conf()))

    def told():
        return sum("keeping the previous settings" in one for one in caplog.messages)

    rewrite(file, f"{known}[filter_scheduler]\nram_weight_multiplier = much\n")
    followed.follow()
    followed.check()
    followed.follow()
    assert told() == 1
    now[0] += JUST + 0.1
    followed.follow()
    assert told() == 1
    followed.check()
    assert told() == 2
