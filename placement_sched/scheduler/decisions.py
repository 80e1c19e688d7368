"""Decisions: what is written down of each answer, in bounded size, and for how long.

Every answer of ``select_destinations`` is a decision, one that names no host too; explanations
are none.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from threading import Lock
from typing import Any
from uuid import uuid4

import orjson
from oslo_log import log

from placement_sched.db.connection import Connection
from placement_sched.db.transaction import Database
from placement_sched.errors import Unavailable
from placement_sched.model.decision import NO_VALID_HOST, SELECTED, Decision, Place
from placement_sched.model.host_aggregate import DEFAULT_POLICY
from placement_sched.model.report import Funnel, View
from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler.pipeline import Run
from placement_sched.store import decisions

LOG = log.getLogger(__name__)

Json = dict[str, Any]

#: How many bytes of JSON a funnel may take that is kept.
MOST_BYTES = 65_536
#: How many characters of a name are kept to find decisions by.
_NAME = 255
#: How many refused hosts of each stage are kept, tried in this order until the funnel is so small.
_REJECTED = (100, 20, 3)


def decided(
    spec: RequestSpec,
    asked: Mapping[str, Any],
    done: Run,
    funnel: Funnel,
    digest: str,
) -> Decision:
    """Return the decision that a run came to; ``asked`` is the request as it was given."""
    uuid = str(uuid4())
    named_here = (
        {} if asked.get("instance_uuids") else {"instance_uuids": list(spec.instance_uuids)}
    )
    chosen: list[str | None] = [best.service_host for best, *_ in done.selections]
    hosts = chosen or [None] * len(spec.instance_uuids)
    policy = done.policy.name if done.policy else DEFAULT_POLICY
    return Decision(
        uuid=uuid,
        outcome=SELECTED if done.selections else NO_VALID_HOST,
        project_id=spec.project_id,
        digest=digest,
        request=asked,
        answer={
            "decision": uuid,
            "policy": policy,
            "selections": [[one.as_json() for one in some] for some in done.selections],
            **named_here,
        },
        places=tuple(map(Place, spec.instance_uuids, hosts)),
        funnel=bounded(funnel),
        policy=policy,
        flavor=spec.flavor.name[:_NAME] or None,
    )


def bounded(funnel: Funnel) -> Json:
    """Return the funnel as it is kept: counts exact, lists as long as there is room for."""
    told: Json = {}
    for most in _REJECTED:
        told = funnel.as_json(View(max_rejected=most))
        if len(orjson.dumps(told)) <= MOST_BYTES:
            return told
    return _outline(told)


def _outline(told: Json) -> Json:
    """Return of a funnel that is large by other things than refused hosts the counts alone."""
    candidates = told["allocation_candidates"]
    counts = ("constraint", "before", "after")
    return {
        "request_filters": [
            {name: one[name] for name in ("name", "applied", "elapsed_ms")}
            for one in told["request_filters"]
        ],
        "allocation_candidates": {
            "query": candidates["query"][: MOST_BYTES // 4],
            "providers": candidates["providers"],
            "hosts": candidates["hosts"],
            "steps": [{name: step[name] for name in counts} for step in candidates["steps"][:100]],
        },
        "filters": [
            {name: one[name] for name in ("name", "before", "after")} for one in told["filters"]
        ],
        "weighers": told["weighers"],
        "outline": True,
    }


class Retention:
    """Deletes decisions that are too old, some at a time, beside the work that makes new ones.

    ``keeping`` is in seconds; 0 keeps them for ever. Any number of processes may do so at once.
    """

    #: How many decisions are made, or seconds go by, before a process looks for old ones again.
    #: Each time it deletes more than were made meanwhile, so that it keeps up.
    EVERY = 200
    SECONDS = 60
    MOST = 1000

    def __init__(self, database: Database, keeping: int) -> None:
        self._database = database
        self._keeping = timedelta(seconds=keeping)
        self._lock = Lock()
        self._made = 0
        self._looked: datetime | None = None

    def made_one(self, now: datetime) -> None:
        """Note that a decision was made, and delete old ones if it is time; never raises."""
        if not self._keeping or not self._is_time(now):
            return
        try:
            self._database.write(lambda connection: self._purge(connection, now))
        except Unavailable as failure:
            LOG.warning("old decisions stay for now: %s", failure.detail)

    def _purge(self, connection: Connection, now: datetime) -> int:
        return decisions.purge(connection, now - self._keeping, self.MOST)

    def _is_time(self, now: datetime) -> bool:
        with self._lock:
            self._made += 1
            self._looked = self._looked or now
            waited = now - self._looked >= timedelta(seconds=self.SECONDS)
            if not waited and self._made < self.EVERY:
                return False
            self._made, self._looked = 0, now
            return True
