"""What a server's workers need of the machine, and what is said where it is not there."""

import errno
import multiprocessing

import pytest

from placement_sched.cli.workers import shared_lock, warn_of_idle
from placement_sched.errors import ConfigurationError

pytestmark = pytest.mark.slow


def test_machine_without_shared_memory_is_named_with_the_way_out(monkeypatch):
    def refused() -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(multiprocessing, "Lock", refused)
    with pytest.raises(ConfigurationError, match=r"shm: Permission denied; .* mode 1777"):
        shared_lock()


def test_lock_is_held_by_one():
    lock = shared_lock()
    assert lock.acquire(block=False)
    assert not lock.acquire(block=False)


@pytest.mark.parametrize(
    ("workers", "cores", "said"),
    [(4, 2, ["4 workers on 2 cores: as many as there are cores will do"]), (4, 4, []), (2, 1, [])],
)
def test_more_workers_than_cores_are_a_warning(monkeypatch, caplog, workers, cores, said):
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: set(range(cores)))
    warn_of_idle(workers)
    assert caplog.messages == said
