"""The demo: the sample cloud in a database of its own, and requests placed on it for real."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from placement_sched.config.process import read_only_files
from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Database
from placement_sched.errors import Invalid, NoValidHost
from placement_sched.model.clock import Clock
from placement_sched.model.report import EVERYTHING
from placement_sched.operations.cloud import Cloud, load
from placement_sched.operations.prepare import sync
from placement_sched.operations.sample_cloud import sample_cloud
from placement_sched.operations.sample_requests import SampleRequest
from placement_sched.scheduler.hosts import Memory
from placement_sched.scheduler.loading import full_conf
from placement_sched.scheduler.service import Scheduler

Json = dict[str, Any]

DATABASE_NAME = "placement_sched.db"
CONFIG_NAME = "demo.conf"

#: The hosts of the demo report once only; so long they count as up. Less than the silent host's
#: silence.
UP_FOR = timedelta(days=7)

_CONFIG = """\
# The sample cloud of placement-sched demo.

[DEFAULT]
# Its hosts have reported once and will not again: they count as up for a week.
service_down_time = {up_for}

[placement_database]
connection = sqlite:///{database}

[scheduler]
# Keep aggregates with metadata trait:X=required for requests that require X.
enable_isolated_aggregate_filtering = true
"""


@dataclass(frozen=True, slots=True)
class Placing:
    """How a request went: what explain told before, and what was selected and claimed then.

    ``selected`` has, for each instance, its uuid (``instance``) beside its selection; it is empty
    where ``refused`` says why there is none.
    """

    request: SampleRequest
    explanation: Json
    selected: tuple[Json, ...] = ()
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class Demo:
    """The sample cloud, and the scheduler that places requests on it."""

    cloud: Cloud
    scheduler: Scheduler

    def place(self, request: SampleRequest) -> Placing:
        """Explain a request, then select and claim for it, on the same state of the cloud."""
        explanation = self.scheduler.explain(request.spec, overrides={}, view=EVERYTHING)
        try:
            answer = self.scheduler.select_destinations(request.spec)
        except NoValidHost as refusal:
            return Placing(request, explanation, refused=refusal.detail)
        pairs = zip(request.spec["instance_uuids"], answer["selections"], strict=True)
        selected = tuple({"instance": uuid, **best} for uuid, (best, *_) in pairs)
        return Placing(request, explanation, selected)


@contextmanager
def opened(directory: Path, clock: Clock, random: Random) -> Iterator[Demo]:
    """Give the demo, its database and its configuration file made in ``directory``.

    Nothing else configures it. Raises :class:`Invalid` for a directory that has a demo already,
    that cannot be written to, or whose name cannot stand in a database URL.
    """
    settings = Settings.from_conf(read_only_files(full_conf(), [str(_configured(directory))]))
    database = Database(settings)
    try:
        now = clock()
        cloud = sample_cloud(now)
        sync(database, clock)
        database.write(partial(load, cloud=cloud, settings=settings, now=now))
        yield Demo(
            cloud,
            Scheduler(
                database=database, settings=settings, clock=clock, random=random, memory=Memory()
            ),
        )
    finally:
        database.dispose()


def _configured(directory: Path) -> Path:
    """Return the configuration file, made in a directory that has none."""
    database, config = directory / DATABASE_NAME, directory / CONFIG_NAME
    for path in (database, config):
        if path.exists():
            raise Invalid(f"{path} is there already; name another directory, or remove it")
    url = str(database.resolve())
    if "?" in url or not url.isprintable():
        raise Invalid(f"{directory}: a name with '?' or control characters fits in no database URL")
    text = _CONFIG.format(
        up_for=int(UP_FOR.total_seconds()),
        # oslo.config takes a single one for a reference to another option.
        database=url.replace("$", "$$"),
    )
    try:
        config.write_text(text, encoding="utf-8")
    except OSError as failure:
        raise Invalid(f"{config}: {failure.strerror}") from None
    return config
