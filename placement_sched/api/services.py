"""What every handler may use, handed in once by ``placement_sched.app``."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from placement_sched.api.metrics import Metrics
from placement_sched.api.policies import Policy
from placement_sched.candidates.summaries import Summaries
from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Database
from placement_sched.model.clock import Clock
from placement_sched.scheduler.service import Scheduler


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The settings, the database, the policy, the clock (naive UTC) and the random source.

    ``metrics`` counts requests as they are answered; what a handler did it takes from the
    database's tally.
    """

    settings: Settings
    database: Database
    policy: Policy
    metrics: Metrics
    clock: Clock
    random: Random
    summaries: Summaries
    scheduler: Scheduler
    #: Prepares the database on first use; raises ``Unavailable`` while it cannot.
    ready: Callable[[], None]
    #: Does what is to be done now and then, whether or not anybody asks for anything.
    keep_up: Callable[[], None]
