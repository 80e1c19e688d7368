"""The settings that the workers of a server go by, as the process that starts them follows them."""

from contextlib import suppress

from oslo_log import log

from placement_sched.config.process import files_read
from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Database
from placement_sched.errors import ConfigurationError
from placement_sched.scheduler import options_file
from placement_sched.scheduler.live_settings import read_again, stamps_of
from placement_sched.scheduler.policies.registry import policies_for
from placement_sched.store import host_aggregates

LOG = log.getLogger(__name__)


class FollowedSettings:
    """The last settings that could be used: what a worker that replaces another begins with.

    Its siblings may go by them though the files have been spoilt since.
    """

    def __init__(self, settings: Settings) -> None:
        """Follow ``settings``; raise :class:`ConfigurationError` for a spoilt file of options."""
        self._configured = settings
        self._in_effect = options_file.read(settings).settings
        self._stamps = self._at_start = self._look()

    @property
    def moved(self) -> bool:
        """Return whether the files are others than they were at the start."""
        return self._look() != self._at_start

    def follow(self) -> None:
        """Take up what the files say now, if it can be used; the workers tell where it cannot."""
        stamps = self._look()
        if stamps != self._stamps:
            self._stamps = stamps
            with suppress(ConfigurationError):
                self._read_again()

    def check(self) -> None:
        """Raise :class:`ConfigurationError` where the files cannot be used any more."""
        self._read_again()

    def as_now(self) -> Settings:
        """Return the settings as the files have them now.

        Where they are spoilt, those that were in effect last; it is told in the log.
        """
        try:
            self._read_again()
        except ConfigurationError as wrong:
            refused = wrong.detail
        else:
            return self._configured
        LOG.error("%s; what was said before stays in effect", refused)
        return self._in_effect

    def _read_again(self) -> None:
        configured = read_again(self._configured)
        in_effect = options_file.read(configured).settings
        before = policies_for(self._in_effect)
        used = [name for name in policies_in_use(in_effect) if before.usable(name)]
        policies_for(in_effect).check(used)
        self._configured, self._in_effect = configured, in_effect

    def _look(self) -> object:
        named = self._configured.scheduler.json_config_location
        files = files_read(self._configured.conf)
        return stamps_of([*files, named] if named else files)


def policies_in_use(settings: Settings) -> frozenset[str]:
    """Return the policies that aggregates name; none where the database does not tell."""
    database = Database(settings)
    try:
        with database.read() as connection:
            found = host_aggregates.snapshot(connection)
    except Exception as failure:  # noqa: BLE001 - of a database of whatever state
        LOG.info("which policies are in use cannot be read: %s", failure)
        return frozenset()
    finally:
        database.dispose()
    return frozenset(one.policy for one in found if one.policy)
