"""The settings that the workers of a server go by, as the process that starts them follows them."""

from collections.abc import Collection
from threading import Lock
from time import monotonic

from oslo_log import log

from placement_sched.db.transaction import Database
from placement_sched.errors import Error
from placement_sched.scheduler import live_settings
from placement_sched.settings import Settings
from placement_sched.settings.watch import Watch
from placement_sched.store.compute import host_aggregates

LOG = log.getLogger(__name__)

#: Seconds for which a refusal is not logged again for the same files.
JUST = 3.0


class FollowedSettings:
    """The last settings that could be used: what a worker that replaces another begins with.

    The other workers may go by them though the files cannot be used any more.
    """

    def __init__(self, settings: Settings) -> None:
        """Follow ``settings``; raise :class:`ConfigurationError` for a broken options file."""
        self._now = live_settings.Reading(
            settings, live_settings.with_options_file(settings).settings
        )
        self._watch = Watch(lambda: live_settings.files_of(self._now.configured))
        self._reading = Lock()
        self._complained = ""
        self._complained_at = 0.0

    @property
    def moved(self) -> bool:
        """Return whether the files are others than they were at the start."""
        return self._watch.has_moved()

    def follow(self) -> None:
        """Read the files again if they have changed; log whether they can be used."""
        with self._reading:
            if changed := self._watch.changed():
                self._read_again(changed)

    def check(self) -> None:
        """Read the files again; log whether they have changed or cannot be used."""
        with self._reading:
            self._read_again(self._watch.changed())

    def as_now(self) -> Settings:
        """Return the settings as the files have them, or, logging that, those last in effect."""
        if not self.moved:
            return self._now.configured
        if refused := self._refusal():
            LOG.error(live_settings.KEPT, refused)
            return self._now.in_effect
        return self._now.configured

    def _read_again(self, changed: Collection[str]) -> None:
        refused, now = self._refusal(), monotonic()
        if not refused:
            if changed:
                LOG.info("%s: changes applied", ", ".join(changed))
            return
        # A signal may come for what was just logged.
        if changed or self._complained != refused or now - self._complained_at > JUST:
            LOG.error(live_settings.KEPT, refused)
        self._complained, self._complained_at = refused, now

    def _refusal(self) -> str:
        """Read the files again; return why what they say cannot be used, or nothing."""
        try:
            self._now = live_settings.read_again(self._now, self._policies_in_use)
        except Error as wrong:
            return wrong.detail
        except Exception as failure:  # noqa: BLE001 - of whatever plugin; the server is to live on
            return " ".join(str(failure).split()) or type(failure).__name__
        return ""

    def _policies_in_use(self) -> frozenset[str]:
        """Return the policies that aggregates name; none where the database does not answer."""
        database = Database(self._now.configured)
        try:
            with database.read() as connection:
                found = host_aggregates.snapshot(connection)
        except Exception as failure:  # noqa: BLE001 - of a database of whatever state
            LOG.info("cannot read which policies are in use: %s", failure)
            return frozenset()
        finally:
            database.dispose()
        return frozenset(one.policy for one in found if one.policy)
