"""What is kept of an answer: its decision, bounded in size, and for how long.

Every answer of ``select_destinations`` is a decision, one that names no host too. An explanation is
one where it is asked to be kept.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache, partial
from threading import Lock
from typing import Any

import orjson
from oslo_config import cfg
from oslo_log import log

from placement_sched import errors
from placement_sched.config.conf import server_options
from placement_sched.config.settings import Settings
from placement_sched.db.leases import Lease
from placement_sched.db.transaction import Database
from placement_sched.model import decision as results
from placement_sched.model.aggregates import DEFAULT_POLICY
from placement_sched.model.decision import Conditions, Decision
from placement_sched.model.document import Json
from placement_sched.model.explanation import Funnel, View
from placement_sched.model.request_ids import RequestIds
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.selection import Run
from placement_sched.store import decisions

#: How many bytes of JSON the options of one decision may take; larger values are left out.
KEPT_OPTIONS_MOST_BYTES = 16_384


@lru_cache(maxsize=64)
def kept_options(settings: Settings) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return the options to keep, by ``group.option``, and the names of those left out.

    The smallest are kept first.
    """
    changed = {
        f"{group}.{name}": value
        for group, name, option in _varying(settings)
        if (value := getattr(getattr(settings, group), name)) != option.default
    }
    sizes = {key: len(orjson.dumps(value, default=str)) for key, value in changed.items()}
    kept, room = {}, KEPT_OPTIONS_MOST_BYTES
    for key in sorted(changed, key=lambda key: (sizes[key], key)):
        room -= len(key) + sizes[key]
        if room >= 0:
            kept[key] = changed[key]
    # What a plugin made of its option may be anything; as text it is what an option is set to.
    document = orjson.loads(orjson.dumps(dict(sorted(kept.items())), default=str))
    return document, tuple(sorted(set(changed) - set(kept)))


def as_overrides(then: Conditions, settings: Settings) -> dict[str, Any]:
    """Return what to lay over ``settings`` so that each option has the value it had then.

    None stands for the default. Options that do not exist any more, and those that were left out,
    are not among them.
    """
    keys = {f"{group}.{name}" for group, name, _ in _varying(settings)}
    return {key: then.options.get(key) for key in sorted(keys.difference(then.left_out))}


def _varying(settings: Settings) -> Iterator[tuple[str, str, cfg.Opt]]:
    """Yield group, name and option of what may vary from request to request, but no secrets."""
    standing = server_options()
    for group, members in settings.conf.registered.items():
        for name, option in members.items():
            if (group, name) in standing or option.secret or not settings.has(group, name):
                continue
            yield group, name, option


LOG = log.getLogger(__name__)

#: How many bytes of JSON a funnel may take that is kept.
MOST_BYTES = 65_536
#: How many of the hosts that passed are kept with their weights.
MOST_BEST = 5
#: How many characters of a name are kept to find decisions by.
_NAME = 255
#: How many rejected hosts of each stage are kept, tried in this order until the funnel is so small.
_REJECTED = (100, 20, 3)


class Retention:
    """Deletes decisions that are too old, some at a time, beside the work that makes new ones.

    ``keeping`` is in seconds; 0 keeps them for ever. Of the processes that make decisions one does
    so for all, as long as it lives.
    """

    #: How many decisions are made, or seconds go by, before a process looks for old ones again.
    #: Each time it deletes so many, and again for so many seconds at most, which the request that
    #: came then waits for: it keeps up with all processes.
    EVERY = 200
    SECONDS = 60
    MOST = 1000
    AT_MOST = 0.2
    #: For so many seconds one process does it for all.
    LEASE = 150

    def __init__(self, database: Database, keeping: int) -> None:
        self._database = database
        self._keeping = timedelta(seconds=keeping)
        self._lease = Lease(database, "expired decisions", self.LEASE)
        self._lock = Lock()
        self._made = 0
        self._looked: datetime | None = None

    def made_one(self, now: datetime) -> None:
        """Note that a decision was made, and delete old ones if it is time; never raises."""
        if not self._keeping or not self._count(now) or not self._lease.is_held():
            return
        try:
            purge = partial(decisions.purge, before=now - self._keeping, most=self.MOST)
            end = time.monotonic() + self.AT_MOST
            while self._database.write(purge) == self.MOST and time.monotonic() < end:
                pass
        except errors.Unavailable as failure:
            LOG.warning("expired decisions were not deleted: %s", failure.detail)

    def _count(self, now: datetime) -> bool:
        """Count a decision; return whether it is time to delete old ones, and then count again."""
        with self._lock:
            self._made += 1
            self._looked = self._looked or now
            # Also where the clock went back by so much.
            waited = abs(now - self._looked) >= timedelta(seconds=self.SECONDS)
            if not waited and self._made < self.EVERY:
                return False
            self._made, self._looked = 0, now
            return True


def decided(
    run: Run, funnel: Funnel, kind: str, ids: RequestIds, changes: Sequence[Json] = ()
) -> Decision:
    """Return the decision that a run came to, on a cloud with these changes."""
    uuid, spec, asked = run.seed.decision, run.request.spec, run.request.whole
    policy = funnel.policy.name if funnel.policy else DEFAULT_POLICY
    answer: Json = {
        "decision": uuid,
        "policy": policy,
        "selections": [[one.as_json() for one in some] for some in run.selections],
    }
    if not asked.get("instance_uuids"):  # the caller learns those that were made up here
        answer["instance_uuids"] = list(spec.instance_uuids)
    chosen: list[str | None] = [best.service_host for best, *_ in run.selections]
    hosts = chosen or [None] * len(spec.instance_uuids)
    return Decision(
        uuid=uuid,
        outcome=results.SELECTED if run.selections else results.NO_VALID_HOST,
        project_id=spec.project_id,
        digest=digest_of_request(spec, run.request.document),
        request=asked,
        answer=answer,
        places=tuple(map(results.PlacedInstance, spec.instance_uuids, hosts)),
        funnel=bounded(funnel),
        best=_best(run),
        conditions=_conditions(run, changes),
        policy=policy,
        flavor=spec.flavor.name[:_NAME] or None,
        kind=kind,
        request_ids=ids,
    )


def _conditions(run: Run, changes: Sequence[Json]) -> Conditions:
    """Return what a run was made under."""
    request = run.request
    options, left_out = kept_options(request.settings)
    return Conditions(
        options=options,
        left_out=left_out,
        overrides=request.overrides,
        policy=request.named_policy,
        changes=tuple(changes),
        alternates=request.alternates > 0,
        names_group=request.names_group,
        attempt=run.seed.attempt,
    )


def _best(run: Run) -> list[Json]:
    """Return the first hosts that passed, with the weights by which any of them differs from 0."""
    if run.choice is None:
        return []
    hosts = [report.as_json() for report in run.choice.first.best_reports(MOST_BEST)]
    counting = {
        name for host in hosts for name, weight in host["weights"].items() if weight["weighted"]
    }
    for host in hosts:
        weights = host["weights"].items()
        host["weights"] = {name: weight for name, weight in weights if name in counting}
    return hosts


def check_kept(overrides: Mapping[str, Any], changes: Sequence[Json]) -> None:
    """Raise :class:`Invalid` for overrides or changes too large to be kept with an explanation."""
    for name, given in (("overrides", overrides), ("changes", changes)):
        if len(orjson.dumps(given)) > KEPT_OPTIONS_MOST_BYTES:
            raise errors.Invalid(
                f"{name}: too large to be kept: more than {KEPT_OPTIONS_MOST_BYTES} bytes of JSON"
            )


def digest_of_request(spec: RequestSpec, document: Mapping[str, Any]) -> str:
    """Return what equal requests share, however they spell or count their instances."""
    same = {key: value for key, value in document.items() if key != "num_instances"}
    return results.digest_of({**same, "instance_uuids": list(spec.instance_uuids)})


def no_valid_host(funnel: Funnel, decision: Decision) -> errors.NoValidHost:
    """Return the error of a request that found no host."""
    reason = f": {funnel.obstacle.reason}" if funnel.obstacle else ""
    extra = {"funnel": funnel.as_json(View()), "decision": decision.uuid}
    return errors.NoValidHost(f"No valid host was found{reason}", extra=extra)


def bounded(funnel: Funnel) -> Json:
    """Return the funnel as it is kept: counts exact, lists as long as there is room for.

    Of one that is large by other things than rejected hosts the counts alone are left.
    """
    shown: Json = {}
    for most in _REJECTED:
        shown = funnel.as_json(View(max_rejected=most))
        if len(orjson.dumps(shown)) <= MOST_BYTES:
            return shown
    searched = shown["allocation_candidates"]
    return {
        "request_filters": _only(shown["request_filters"], "name", "applied", "elapsed_ms"),
        "allocation_candidates": {
            "query": searched["query"][: MOST_BYTES // 4],
            "providers": searched["providers"],
            "hosts": searched["hosts"],
            "steps": _only(searched["steps"][:100], "constraint", "before", "after"),
        },
        "filters": _only(shown["filters"], "name", "before", "after"),
        "weighers": shown["weighers"],
        "outline": True,
    }


def _only(entries: list[Json], *names: str) -> list[Json]:
    return [{name: one[name] for name in names} for one in entries]
