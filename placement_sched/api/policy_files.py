"""Whether the operator's policy files are still what they were when they were read."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import monotonic

from oslo_config import cfg

#: Seconds between two looks at the files: a look at every request would take a twentieth of a short
#: one, and whoever changes a rule does not notice.
PAUSE = 0.5

#: What tells one state of a file or directory from another; None where there is nothing.
_Stamp = tuple[int, int, int] | None


class PolicyFiles:
    """The places where oslo.policy looks for ``[oslo_policy] policy_file`` and ``policy_dirs``.

    Watched are the files that are there now and the directories in which others may appear, so
    that a look costs a handful of ``stat`` calls.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        options = conf.oslo_policy
        places = list(_places(conf, [options.policy_file, *options.policy_dirs]))
        there = [place for place in places if place.exists()]
        inside = [path for place in there if place.is_dir() for path in _files_in(place)]
        above = [place.parent for place in places]
        self._paths = tuple(dict.fromkeys(map(str, [*above, *there, *inside])))
        self._stamps = self._look()
        self._look_again = 0.0

    def have_changed(self) -> bool:
        """Return whether a policy file appeared, changed or went since this object was made.

        Other changes of the directories count too. Once nothing had changed, nobody looks again
        for :data:`PAUSE` seconds.
        """
        now = monotonic()
        if now < self._look_again:
            return False
        if self._look() != self._stamps:
            return True
        self._look_again = now + PAUSE
        return False

    def _look(self) -> list[_Stamp]:
        return [_stamp(path) for path in self._paths]


def _places(conf: cfg.ConfigOpts, names: Iterable[str]) -> Iterator[Path]:
    """Yield every path that ``conf.find_file`` tries for ``names``."""
    beside = [Path(file).expanduser().absolute().parent for file in conf.config_file]
    usual = cfg._get_config_dirs(conf.project)  # noqa: SLF001 - said nowhere else
    directories: list[str | Path] = [*conf.config_dirs, *beside, *usual]
    for name in names:
        for directory in directories:
            yield Path(directory).expanduser() / name


def _files_in(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []


def _stamp(path: str) -> _Stamp:
    try:
        found = os.stat(path)  # noqa: PTH116 - at every request, and a Path takes twice as long
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
