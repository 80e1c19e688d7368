"""Keeps inventories at the ratios that the configuration gives policies, while it changes."""

from collections.abc import Callable
from threading import Lock, Thread

from oslo_log import log

from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Database
from placement_sched.errors import Error
from placement_sched.model.clock import Clock
from placement_sched.operations import aggregate_policies, policy_ratios
from placement_sched.scheduler.policies.registry import Policies, policies_for
from placement_sched.store import host_aggregates

LOG = log.getLogger(__name__)


class PolicyUpkeep:
    """Brings inventories to the ratios of policies at the start, and whenever settings change.

    Called before every request, it costs one look at the settings. What is to be done at the start
    is done before the call returns, and raises :class:`Unavailable` where the database does not
    answer. Later it is done beside the requests; where it fails, the next request tries again.
    """

    def __init__(self, database: Database, settings: Callable[[], Settings], clock: Clock) -> None:
        self._database = database
        self._settings = settings
        self._clock = clock
        self._turn = Lock()
        self._done: Settings | None = None

    def __call__(self) -> None:
        """See to it that inventories have the ratios of the settings in effect now."""
        settings = self._settings()
        if settings is self._done or not self._turn.acquire(blocking=False):
            return
        if self._done is None:
            self._apply(settings)
        else:
            Thread(target=self._again, args=(settings,), name="policy ratios", daemon=True).start()

    def _again(self, settings: Settings) -> None:
        try:
            self._apply(settings)
        except Error as failure:
            LOG.warning("allocation ratios of policies: %s; to be tried again", failure.detail)

    def _apply(self, settings: Settings) -> None:
        try:
            policies = policies_for(settings, self._clock)
            self._tell_faults(policies)
            hosts, changed = policy_ratios.apply(self._database, policies, self._clock)
            self._done = settings
        finally:
            self._turn.release()
        if changed:
            LOG.info(
                "allocation ratios of policies: the inventories of %d providers were brought to "
                "them; %d hosts are in aggregates with a policy",
                changed,
                hosts,
            )

    def _tell_faults(self, policies: Policies) -> None:
        """Warn of aggregates whose policy cannot be used: their hosts are under the default one."""
        if policies.imaginable:
            with self._database.read() as connection:
                found = host_aggregates.snapshot(connection)
            for fault in aggregate_policies.faults(found, policies):
                LOG.warning("%s", fault)
