"""Waits for what nova does with the requests that were evaluated, and records the verdicts.

The allocations of an instance in placement are nova's claim: exact, and there at once. Of an
instance without any, nova's databases say what became of it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from threading import Lock
from time import monotonic
from typing import Any

from oslo_log import log

from placement_sched.db.transaction import Database
from placement_sched.errors import Error, Unavailable
from placement_sched.model.clock import Clock
from placement_sched.model.document import Document
from placement_sched.model.explanation import View
from placement_sched.model.shadow_result import AGREEING, DISAGREEING, ShadowResult
from placement_sched.nova.databases.placements import ActionEvent, NovaRecord, WantedRecord
from placement_sched.nova.shadow.comparing import HostName, Judged, Notes, NovaOutcome, judge
from placement_sched.nova.shadow.evaluator import NONE_HELD, AwaitedRequest, Before, Held, held_by
from placement_sched.store import decisions, shadow_results

#: The events by which computes begin with an instance that was placed there.
_ATTEMPTS = frozenset(
    {
        "compute__do_build_and_run_instance",
        "compute_prep_resize",
        "compute_rebuild_instance",
        "compute_unshelve_instance",
    }
)
#: The event of the conductor that asks whether an instance may be rebuilt where it is.
_REBUILD = "rebuild_server"
_FAILED = ("error", "failed")
_SUCCESS = "Success"
#: How the fault of an instance begins that was never placed.
_NO_VALID_HOST = "No valid host"


def outcome_of(record: NovaRecord, *, is_rebuild: bool = False) -> NovaOutcome | None:
    """Return what nova did with an instance; None where it is not known yet."""
    if any(event.is_no_valid_host for event in record.events):
        return NovaOutcome(None)
    if record.is_buried:
        known = record.fault is None or record.fault.startswith(_NO_VALID_HOST)
        return NovaOutcome(None) if known else None
    if is_rebuild:
        return _of_rebuild(record)
    attempts = list(_attempts(record))
    if attempts:
        first, last = attempts[0], attempts[-1]
        return NovaOutcome(first, ended_on=None if last.host == first.host else last)
    move = record.migration
    if move is not None:
        if move.dest_compute and move.status not in _FAILED:
            return NovaOutcome(HostName(move.dest_compute, move.dest_node or move.dest_compute))
        return NovaOutcome(None) if move.status in _FAILED and not move.dest_compute else None
    return None


def _of_rebuild(record: NovaRecord) -> NovaOutcome | None:
    """Return that the instance may stay where it is, once a compute or the conductor says so."""
    done = any(
        event.event in _ATTEMPTS or (event.event == _REBUILD and event.result == _SUCCESS)
        for event in record.events
    )
    if not done or record.host is None:
        return None
    return NovaOutcome(HostName(record.host, record.node or record.host))


def _attempts(record: NovaRecord) -> Iterator[HostName]:
    """Yield the hosts on which computes began with the instance, in this order."""
    for event in record.events:
        if event.event in _ATTEMPTS and event.host:
            yield HostName(event.host, _node_of(record, event))


def _node_of(record: NovaRecord, event: ActionEvent) -> str:
    """Return the node of an attempt: the instance's or the migration's own, if on that host."""
    host, move = event.host or "", record.migration
    if record.host == host and record.node:
        return record.node
    if move is not None and move.dest_compute == host and move.dest_node:
        return move.dest_node
    return host


LOG = log.getLogger(__name__)

#: Seconds between two looks at the allocations, and at nova's databases.
PAUSE, RECORDS_PAUSE = 0.5, 2.0
#: Seconds after which it counts as unknown what nova did. nova waits for a scheduler for as long as
#: ``long_rpc_timeout`` (1800) says, but one that takes so long is not compared with anything.
DEADLINE = 600
#: Seconds that a request waits for nova's claim before nova's databases are asked.
_FIRST = 2.0

#: Reads nova's records of some instances; those of which it has none are left out.
ReadRecords = Callable[[Sequence[WantedRecord]], Mapping[str, NovaRecord]]
#: Explains a request as the cloud is now.
Explain = Callable[..., Document]


@dataclass(slots=True)
class _Waiting:
    """A request that waits, and what is known of its instances so far."""

    asked: AwaitedRequest
    known: dict[str, NovaOutcome] = field(default_factory=dict)
    began: float = field(default_factory=monotonic)


@dataclass(slots=True)
class AgreementTally:
    """How many requests were compared since the start, and how many of them agree."""

    compared: int = 0
    agreed: int = 0

    def __str__(self) -> str:
        """Return it in words."""
        share = 100 * self.agreed / self.compared if self.compared else 0.0
        return f"{self.compared} instances compared with nova's choice, {share:.1f} % agree"


@dataclass(eq=False, slots=True, kw_only=True)
class Awaiting:
    """The requests that wait for what nova did; for two threads, one that adds and one that steps.

    ``explain`` is :meth:`Scheduler.explain`, asked where nothing was noted of nova's host.
    """

    database: Database
    records: ReadRecords
    explain: Explain
    clock: Clock
    deadline: float = DEADLINE
    tally: AgreementTally = field(default_factory=AgreementTally)
    _waiting: dict[str, _Waiting] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)
    _read_at: float = 0.0
    _complained: str = ""

    def add(self, asked: AwaitedRequest) -> None:
        """Wait for what nova does with a request.

        An earlier one for the same instance is asked again by it, as a live migration does for
        another host: what is not known of the earlier one by now, will not be.
        """
        again = set(asked.instances)
        with self._lock:
            earlier = [one for one in self._waiting.values() if again & set(one.asked.instances)]
            self._waiting[asked.decision] = _Waiting(asked)
        for one in earlier:
            self._settle(one)

    def resume(self) -> None:
        """Wait for the requests that an earlier process evaluated and did not see the end of."""
        with self.database.read() as connection:
            found = shadow_results.pending(connection)
        by_decision: dict[str, list[ShadowResult]] = {}
        for one in found:
            by_decision.setdefault(one.decision, []).append(one)
        for uuid, results in by_decision.items():
            asked = AwaitedRequest(
                decision=uuid,
                instances=tuple(one.instance for one in results),
                request_id=results[0].request_ids.request_id,
                since=results[0].created_at or self.clock(),
                before=Before({}, NONE_HELD, frozenset()),
            )
            with self._lock:
                self._waiting.setdefault(uuid, _Waiting(asked))

    def step(self) -> None:
        """Look once at what nova has done; log what does not answer."""
        with self._lock:
            waiting = list(self._waiting.values())
        if not waiting:
            return
        try:
            self._look(waiting)
            self._complained = ""
        except Error as failure:
            if failure.detail != self._complained:
                LOG.warning("what nova did is not known yet: %s", failure.detail)
            self._complained = failure.detail

    def _look(self, waiting: Sequence[_Waiting]) -> None:
        uuids = {uuid for one in waiting for uuid in one.asked.instances}
        with self.database.read() as connection:
            held = held_by(connection, uuids)
        for one in waiting:
            self._note_claims(one, held)
        now = monotonic()
        if now - self._read_at >= RECORDS_PAUSE:
            self._read_at = now
            self._note_records([one for one in waiting if now - one.began >= _FIRST])
        oldest = self.clock() - timedelta(seconds=self.deadline)
        for one in waiting:
            if len(one.known) == len(one.asked.instances) or one.asked.since < oldest:
                self._settle(one)

    @staticmethod
    def _note_claims(one: _Waiting, held: Held) -> None:
        """Note the hosts where nova has claimed, once it has for all instances of the request.

        For as long as it has not, it may give up and take back what it claimed for the first ones.
        On the host that an instance was on, its allocations may be those that nova gave back.
        """
        asked, before = one.asked, one.asked.before
        claimed: dict[str, NovaOutcome] = {}
        for uuid in asked.instances:
            new = held.get(uuid, frozenset()) - before.held.get(uuid, frozenset())
            if asked.is_rebuild or len(new) != 1:
                return
            (host,) = new
            if host.host == before.sources.get(uuid):
                return
            claimed[uuid] = NovaOutcome(host)
        one.known = claimed

    def _note_records(self, waiting: Iterable[_Waiting]) -> None:
        """Note what nova's databases say of the instances of which no claim was seen."""
        unknown = [
            (one, uuid) for one in waiting for uuid in one.asked.instances if uuid not in one.known
        ]
        if not unknown:
            return
        wanted = [
            WantedRecord(uuid, one.asked.request_id, one.asked.since) for one, uuid in unknown
        ]
        found = self.records(wanted)
        for one, uuid in unknown:
            record = found.get(uuid)
            if record is None:
                continue
            outcome = outcome_of(record, is_rebuild=one.asked.is_rebuild)
            if outcome is not None:
                one.known[uuid] = outcome

    def _settle(self, one: _Waiting) -> None:
        """Record the verdicts on a request; it waits no longer."""
        with self._lock:
            if self._waiting.get(one.asked.decision) is not one:
                return
        with self.database.read() as connection:
            results = shadow_results.of_decision(connection, one.asked.decision)
        judged = self._judged(one, results)
        settled = [
            replace(
                result,
                verdict=verdict.verdict,
                nova_host=verdict.nova_host.host if verdict.nova_host else None,
                detail=_shown(verdict),
            )
            for result, verdict in zip(results, judged, strict=True)
        ]
        self.database.write(partial(shadow_results.settle, results=settled, now=self.clock()))
        with self._lock:
            self._waiting.pop(one.asked.decision, None)
        self._count(one.asked, settled)

    def _judged(self, one: _Waiting, results: Sequence[ShadowResult]) -> list[Judged]:
        if not results:  # purged meanwhile
            return []
        uuids = [result.instance for result in results]
        notes = Notes.read(results[0].detail["notes"])
        judged = judge(notes, uuids, [one.known.get(uuid) for uuid in uuids])
        return [
            replace(
                verdict, detail={**verdict.detail, **self._reason(one.asked, verdict.nova_host)}
            )
            if verdict.needs_reason and verdict.nova_host is not None
            else verdict
            for verdict in judged
        ]

    def _reason(self, asked: AwaitedRequest, host: HostName) -> dict[str, Any]:
        """Return how nova's host fares with the same request now, where it was not noted then."""
        with self.database.read() as connection:
            document = decisions.by_uuid(connection, asked.decision).request
        try:
            now = self.explain(document, overrides={}, view=View(frozenset(host), max_rejected=1))
        except Unavailable:
            raise
        except Error as failure:
            return {"why": f"{host} was not among the hosts noted ({failure.detail})"}
        for verdict in now.get("verdicts", ()):
            if verdict.get("host") == host.host:
                return {"why": f"{host} was not among the hosts noted; now: {_words(verdict)}"}
        return {"why": f"no compute node {host} is known here"}

    def _count(self, asked: AwaitedRequest, settled: Sequence[ShadowResult]) -> None:
        for result in settled:
            self.tally.agreed += result.verdict in AGREEING
            self.tally.compared += result.verdict in (*AGREEING, *DISAGREEING)
            if result.verdict in DISAGREEING:
                LOG.info(
                    "%s, instance %s: %s: %s (decision %s)",
                    asked.request_id,
                    result.instance,
                    result.verdict,
                    result.detail.get("why", ""),
                    asked.decision,
                )


def _shown(judged: Judged) -> dict[str, Any]:
    host = judged.nova_host
    return {**judged.detail, **({"nova_node": host.node} if host else {})}


def _words(verdict: Mapping[str, Any]) -> str:
    """Return a verdict of an explanation in one line."""
    reasons = verdict.get("reasons") or ()
    if reasons:
        first = reasons[0]
        return f"{first.get('name', '')}: {first.get('reason', '')}".lstrip(": ")
    weight = verdict.get("weight")
    return str(verdict.get("verdict")) if weight is None else f"passed, with the weight {weight:g}"
