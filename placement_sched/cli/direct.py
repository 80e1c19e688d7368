"""The scheduler core on the configured database, asked without a server."""

from typing import Any

from placement_sched.api.microversion import Version
from placement_sched.api.scheduler import placing
from placement_sched.api.scheduler.schemas import explain as explain_schemas
from placement_sched.api.scheduler.schemas import select_destinations as select_schemas
from placement_sched.api.schema import Schemas
from placement_sched.cli.database import shown
from placement_sched.scheduler.service import Scheduler
from placement_sched.store import host_aggregates

Json = dict[str, Any]


class DirectScheduler:
    """Takes and gives the JSON of ``/scheduler/v1``, checked by the same schemas."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    @property
    def place(self) -> str:
        """The database asked, without its password."""
        return shown(self._scheduler.database)

    def aggregate_names(self) -> dict[str, str]:
        """Return the names of host aggregates by uuid."""
        with self._scheduler.database.read() as connection:
            return {one.uuid: one.name for one in host_aggregates.all_aggregates(connection)}

    def explain(self, body: Json) -> Json:
        """Return the explanation of ``body``; raise :class:`Invalid` for a malformed one."""
        _check(explain_schemas.POST, body)
        return placing.explain(self._scheduler, body)

    def policies(self) -> list[Json]:
        """Return every scheduler policy."""
        return self._scheduler.policies()

    def policy(self, name: str) -> Json:
        """Return one scheduler policy; raise :class:`NotFound` where there is none."""
        return self._scheduler.policy(name)

    def select(self, body: Json) -> Json:
        """Return the selections for ``body``; raise :class:`NoValidHost` with the funnel."""
        _check(select_schemas.POST, body)
        return placing.select(self._scheduler, body)


def _check(schemas: Schemas, body: Json) -> None:
    schema = schemas.at(Version(1, 0))
    if schema is not None:
        schema.check(body, "JSON does not validate")
