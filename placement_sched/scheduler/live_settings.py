"""The settings that requests go by, read again when a file that they come from changes.

These are the configuration files, as far as they say what may vary from request to request, and
the file that ``[scheduler] json_config_location`` names.
"""

import os
from collections.abc import Callable, Collection, Iterable
from threading import Lock
from time import monotonic

from oslo_log import log

from placement_sched.config.lines import files_read
from placement_sched.config.settings import Settings
from placement_sched.errors import ConfigurationError
from placement_sched.model.clock import Clock
from placement_sched.scheduler import options_file
from placement_sched.scheduler.loading import full_conf, read_settings
from placement_sched.scheduler.overriding import standing_options
from placement_sched.scheduler.policies.registry import policies_for
from placement_sched.scheduler.policies.sections import RATIOS

LOG = log.getLogger(__name__)

#: Seconds between two looks at the files.
PAUSE = 1.0

#: Read when the server starts by what these options set up, but read again all the same.
_READ_AGAIN = RATIOS | {
    ("scheduler", name) for name in ("policies", "policy_overrides", "policy_selection")
}

#: What tells one state of a file from another; None where there is none.
Stamp = tuple[int, int, int] | None


class LiveSettings:
    """The settings in effect from now on: those of the start, and what files say since.

    Files that are spoilt are told in the log, and what was in effect stays so, as a whole; so it
    does where a policy that is ``in_use`` could not be used any more. Where the file of options is
    spoilt already, ``settings`` themselves are in effect: those that could be used last, in a
    worker that replaces another.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        elapsed: Callable[[], float] = monotonic,
        in_use: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._configured = settings
        self._clock = clock
        self._elapsed = elapsed
        self._in_use = in_use
        self._look_again = elapsed() + PAUSE
        self._stamps = self._look()
        self._reading = Lock()
        self._settings = settings
        self._read_all = False
        refused = ""
        try:
            self._settings = self._laid_over(settings)
        except ConfigurationError as wrong:
            self._read_all, refused = True, wrong.detail
        if refused:
            LOG.error("%s; keeping the previous settings", refused)

    def settings(self) -> Settings:
        """Return the settings in effect, having looked at the files once in :data:`PAUSE` seconds.

        Whoever comes while another thread reads them goes by what they said before.
        """
        if not self._stamps or self._elapsed() < self._look_again:
            return self._settings
        if self._reading.acquire(blocking=False):
            try:
                self._look_again = self._elapsed() + PAUSE
                self._refresh()
            finally:
                self._reading.release()
        return self._settings

    def _refresh(self) -> None:
        stamps = self._look()
        changed = [
            file
            for file in {**stamps, **self._stamps}
            if stamps.get(file) != self._stamps.get(file)
        ]
        if not changed:
            return
        # Noted before they are read: a change in between is seen next time.
        self._stamps = stamps
        refused = ""
        try:
            self._take_up(changed)
        except ConfigurationError as wrong:
            refused = wrong.detail
        if refused:  # told behind the failure, which the log would tell once more
            LOG.warning("%s; keeping the previous settings", refused)
        else:
            LOG.info("%s: changed, and in effect", ", ".join(changed))

    def _take_up(self, changed: Collection[str]) -> None:
        configured = self._configured
        if self._read_all or any(file in files_read(configured.conf) for file in changed):
            configured = read_again(configured)
        found = self._laid_over(configured)
        before = policies_for(self._settings, self._clock)
        used = [name for name in self._in_use() if before.usable(name)]
        policies_for(found, self._clock).check(used)
        self._configured, self._settings, self._read_all = configured, found, False

    def _laid_over(self, configured: Settings) -> Settings:
        found = options_file.read(configured, self._clock)
        for told in found.passed_over:
            LOG.warning("%s; it is ignored", told)
        return found.settings

    def _look(self) -> dict[str, Stamp]:
        named = self._configured.scheduler.json_config_location
        # What comes into the folder of further files is seen as well.
        files = files_read(self._configured.conf)
        return stamps_of([*files, named] if named else files)


def read_again(running: Settings) -> Settings:
    """Return ``running`` with what its files say now of options that may vary while it runs.

    What else has changed is told in the log: it takes a restart. Raises
    :class:`ConfigurationError` where the files cannot be read or used.
    """
    # The folder of further files is found anew, as at the start.
    fresh = read_settings(running.conf.config_file or (), full_conf())
    standing = standing_options() - _READ_AGAIN
    changed = running.unlike(fresh)
    for group, name in sorted(changed & standing):
        LOG.warning("[%s] %s has changed, which takes a restart", group, name)
    return running.with_values_of(fresh, changed - standing)


def stamps_of(files: Iterable[str]) -> dict[str, Stamp]:
    """Return what tells the files as they are from what they may become."""
    return {file: _stamp(file) for file in files}


def _stamp(file: str) -> Stamp:
    try:
        found = os.stat(file)  # noqa: PTH116 - while requests wait, and a Path is slower
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
