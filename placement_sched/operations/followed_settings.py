"""The settings that the workers of a server go by, as the process that starts them follows them."""

from threading import Lock
from time import monotonic

from oslo_log import log

from placement_sched.config.lines import files_read
from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Database
from placement_sched.errors import Error
from placement_sched.scheduler import options_file
from placement_sched.scheduler.live_settings import Stamp, read_again, stamps_of
from placement_sched.scheduler.policies.registry import policies_for
from placement_sched.store import host_aggregates

LOG = log.getLogger(__name__)

#: Seconds for which a refusal is not logged again for the same files.
JUST = 3.0

_Stamps = dict[str, Stamp]


class FollowedSettings:
    """The last settings that could be used: what a worker that replaces another begins with.

    Its siblings may go by them though the files cannot be used any more.
    """

    def __init__(self, settings: Settings) -> None:
        """Follow ``settings``; raise :class:`ConfigurationError` for a spoilt file of options."""
        self._configured = settings
        self._in_effect = options_file.read(settings).settings
        self._stamps = self._at_start = self._look()
        self._reading = Lock()
        self._complained: tuple[str, _Stamps] | None = None
        self._complained_at = 0.0

    @property
    def moved(self) -> bool:
        """Return whether the files are others than they were at the start."""
        return self._look() != self._at_start

    def follow(self) -> None:
        """Take up what the files say now, if they have changed and can be used; log which."""
        with self._reading:
            stamps = self._look()
            if stamps != self._stamps:
                self._take_up(stamps)

    def check(self) -> None:
        """Take up what the files say now, and log it where they have changed or cannot be used."""
        with self._reading:
            self._take_up(self._look())

    def as_now(self) -> Settings:
        """Return the settings as the files have them now.

        Where they cannot be used, those that were in effect last; that is logged.
        """
        if not self.moved:
            return self._configured
        if refused := self._refusal():
            LOG.error("%s; keeping the previous settings", refused)
            return self._in_effect
        return self._configured

    def _take_up(self, stamps: _Stamps) -> None:
        changed = [
            file
            for file in {**stamps, **self._stamps}
            if stamps.get(file) != self._stamps.get(file)
        ]
        # Noted before they are read: a change in between is seen next time.
        self._stamps = stamps
        refused = self._refusal()
        if refused:
            self._complain(refused, stamps)
        elif changed:
            LOG.info("%s: changed, and in effect", ", ".join(changed))

    def _complain(self, refused: str, stamps: _Stamps) -> None:
        """Log why the files cannot be used, unless that was just logged: a signal may come then."""
        now = monotonic()
        if self._complained != (refused, stamps) or now - self._complained_at > JUST:
            LOG.error("%s; keeping the previous settings", refused)
        self._complained, self._complained_at = (refused, stamps), now

    def _refusal(self) -> str:
        """Read the files again; return why what they say cannot be used, or nothing."""
        try:
            self._read_again()
        except Error as wrong:
            return wrong.detail
        except Exception as failure:  # noqa: BLE001 - of whatever plugin; the server is to live on
            return " ".join(str(failure).split()) or type(failure).__name__
        return ""

    def _read_again(self) -> None:
        configured = read_again(self._configured)
        found = options_file.read(configured)
        for ignored in found.passed_over:
            LOG.warning("%s; it is ignored", ignored)
        in_effect = found.settings
        before = policies_for(self._in_effect)
        used = [name for name in policies_in_use(in_effect) if before.usable(name)]
        policies_for(in_effect).check(used)
        self._configured, self._in_effect = configured, in_effect

    def _look(self) -> _Stamps:
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
