# SPDX-License-Identifier: Apache-2.0
"""Recorded decisions: search, lists, details and replay."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta

from placement_sched.db.transaction import Connection
from placement_sched.errors import Invalid
from placement_sched.explain.phrases import CODES, join_code, join_subject
from placement_sched.explain.values import ExplanationView
from placement_sched.limits import (
    MAX_COUNTED_INTERVALS,
    MAX_COUNTED_VALUES,
    MAX_EXAMINED_DECISIONS,
    MAX_REPLAY_VERDICTS,
)
from placement_sched.model.aggregates import DEFAULT_POLICY
from placement_sched.model.context import NO_REQUEST
from placement_sched.model.decision import (
    EXPLAIN,
    NO_VALID_HOST,
    SELECTED,
    Conditions,
    Decision,
    DecisionQuery,
    DecisionSeed,
    DecisionSummary,
    RecordedFunnel,
    find_differences,
)
from placement_sched.model.document import Json
from placement_sched.model.grouping import split_batches
from placement_sched.model.names import suggest_name
from placement_sched.model.rejection import CANDIDATES, FILTERS
from placement_sched.scheduler.decisions import build_restoring_overrides, make_decision
from placement_sched.scheduler.explain.explanation import make_explanation
from placement_sched.scheduler.explain.verdicts import build_verdicts, map_reported_trees
from placement_sched.scheduler.policies.registry import Policies
from placement_sched.scheduler.replay import build_request
from placement_sched.scheduler.scheduler import Evaluator, Scheduler
from placement_sched.scheduler.selection import SchedulingRun
from placement_sched.schemas import formats
from placement_sched.store import decisions
from placement_sched.store.compute import compute_nodes, flavors

_IDS = ("request_id", "global_request_id")
#: Query parameters that are fields of :class:`DecisionQuery` without conversion.
_PLAIN = ("outcome", "kind", "project_id", "flavor", "stage", "host", *_IDS)
_TIMES = ("since", "until")

#: The columns whose values are counted, by their keys in the result.
_COUNTED = {"stages": "stage", "flavors": "flavor", "policies": "policy", "projects": "project_id"}
_REASON = ("reason_kind", "reason_subject")
#: Lengths of the intervals of a count over time, in seconds.
_BUCKETS = (60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400)
#: Maximum number of funnels that an SQL statement reads.
_FUNNEL_BATCH = 50
#: The settings of a replay: current settings, or the settings recorded with the decision.
CURRENT_SETTINGS, RECORDED_SETTINGS = "now", "then"


def read_query(parameters: Mapping[str, str | None]) -> DecisionQuery:
    """Parse the parameters of a list, or raise :class:`Invalid`."""
    policy, instance = parameters.get("policy"), parameters.get("instance")
    kind, _, subject = (parameters.get("reason") or "").partition(":")
    plain: Json = {name: parameters.get(name) for name in _PLAIN}
    for name in _TIMES:
        if (time := parameters.get(name)) is not None:
            plain[name] = formats.read(formats.parse_datetime, time, name)
    return DecisionQuery(
        **plain,
        reason_kind=kind or None,
        reason_subject=join_subject(subject.split(",")) or None,
        policy=None if policy is None else policy.lower(),  # names of sections are in lower case
        instance=None
        if instance is None
        else formats.read(formats.parse_uuid, instance, "instance"),
    )


def find_unknown_names(
    connection: Connection, parameters: Mapping[str, str], policies: Policies
) -> Iterator[Json]:
    """Yield the query parameters with a name that does not exist.

    Each entry has the ``key`` of the parameter and a ``detail``, a sentence with similar names. A
    deleted name is valid as long as a decision contains it. Names of projects are not checked.
    """
    list_names: Mapping[str, Callable[[], Collection[str]]] = {
        "flavor": lambda: [flavor.name for flavor in flavors.list_flavors(connection)],
        "policy": lambda: [DEFAULT_POLICY, *policies.names],
        "reason": lambda: CODES,
        "host": lambda: {host for host, _ in compute_nodes.map_names_by_uuid(connection).values()},
        "rejected": lambda: compute_nodes.list_names(connection),
    }
    for key, existing in list_names.items():
        if (name := parameters.get(key)) is None:
            continue
        noun = "host" if key == "rejected" else key
        search = replace(read_query({noun: name}), reason_subject=None)
        if decisions.search(connection, search, limit=1):
            continue
        name = search.policy or search.reason_kind or name
        column = "reason_kind" if key == "reason" else noun
        names = {*existing(), *decisions.list_recent_names(connection, column)}
        if name not in names and not (key == "policy" and policies.is_usable(name)):
            detail = f"there is no {noun} {name!r}{suggest_name(noun, name, names)}"
            yield {"key": key, "detail": detail}


def build_decision_view(decision: Decision) -> Json:
    """Return a decision with its request, funnel and selections."""
    conditions = decision.conditions
    return summarize_decision(decision) | {
        "request": decision.request,
        "funnel": decision.funnel,
        "best": decision.best,
        "selections": decision.result["selections"],
        "conditions": None if conditions is None else conditions.as_json(),
    }


#: Keys of a list entry that follow ``project_id``.
_MORE = ("created_at", "policy", "stage", "reason", *_REASON)


def summarize_decision(decision: DecisionSummary) -> Json:
    """Return the list entry of a decision."""
    ids, names = decision.request_ids, ("uuid", "outcome", "kind", "flavor", "project_id")
    return {name: getattr(decision, name) for name in (*names, *_MORE)} | {
        "request_id": ids.request_id,
        "global_request_id": ids.global_request_id,
        "instances": [{"uuid": place.instance, "host": place.host} for place in decision.instances],
    }


def count_decisions(connection: Connection, query: DecisionQuery, now: datetime) -> Json:
    """Count matching decisions by outcome, frequent value and time."""
    begin = query.since or decisions.find_oldest_time(connection, query) or now
    span = ((query.until or now) - begin).total_seconds()
    fitting = (size for size in _BUCKETS if span / size <= MAX_COUNTED_INTERVALS)
    seconds = next(fitting, _BUCKETS[-1])
    unit = "minute" if seconds < 3600 else "hour" if seconds < 86_400 else "day"
    buckets: dict[datetime, Counter[str]] = defaultdict(Counter)
    outcomes = Counter(dict.fromkeys((SELECTED, NO_VALID_HOST), 0))
    for time, outcome, count in decisions.count_by_time(connection, query, unit):
        offset = time.replace(tzinfo=UTC).timestamp() % seconds
        buckets[time - timedelta(seconds=offset)][outcome] += count
        outcomes[outcome] += count
    return {
        "total": outcomes.total(),
        "outcomes": dict(outcomes),
        **{
            key: [
                {"name": row.values[0], "count": row.count, "failed": row.failed}
                for row in decisions.count_by_value(connection, query, [column], MAX_COUNTED_VALUES)
            ]
            for key, column in _COUNTED.items()
        },
        "reasons": [
            {
                "name": join_code(str(kind), subject),
                "kind": kind,
                "subject": subject,
                "count": row.count,
                "failed": row.failed,
            }
            for row in decisions.count_by_value(connection, query, _REASON, MAX_COUNTED_VALUES)
            for kind, subject in [row.values]
        ],
        "since": begin,
        "until": query.until or now,
        "bucket_seconds": seconds,
        "buckets": [
            {"begin": time, **{name: buckets[time][name] for name in (SELECTED, NO_VALID_HOST)}}
            for time in sorted(buckets)
        ],
    }


def find_rejecting_decisions(
    connection: Connection, query: DecisionQuery, host: str, *, marker: str | None, limit: int
) -> Json:
    """List a page of decisions that rejected a host or node.

    Each decision has the ``rejections`` of the host. At most :data:`MAX_EXAMINED_DECISIONS`
    decisions that match ``query`` are examined. ``unknown`` counts examined decisions whose
    recorded funnel may omit a rejection of the host. ``next`` is the marker of the next page.
    """
    summaries = decisions.search(connection, query, marker=marker, limit=MAX_EXAMINED_DECISIONS)
    matches: list[Json] = []
    examined = unknown = 0
    for batch in split_batches(summaries, _FUNNEL_BATCH):
        funnels = decisions.map_funnels(connection, [row.uuid for row in batch])
        for row in batch:
            if len(matches) == limit:
                break
            examined += 1
            funnel = funnels.get(row.uuid, RecordedFunnel(None))
            if reasons := list(iterate_rejections(funnel, host)):
                matches.append(summarize_decision(row) | {"rejections": reasons})
            elif host not in {place.host for place in row.instances} and not _is_complete_for(
                funnel, host
            ):
                unknown += 1
    has_more = examined < len(summaries) or len(summaries) == MAX_EXAMINED_DECISIONS
    return {
        "decisions": matches,
        "rejected": {"examined": examined, "unknown": unknown},
        "next": summaries[examined - 1].uuid if has_more else None,
    }


def iterate_rejections(recorded: RecordedFunnel, host: str) -> Iterator[Json]:
    """Yield the rejections of a host or node in a recorded funnel."""
    for category, stage in _iterate_stages(recorded):
        for entry in stage.get("rejected", ()):
            if host in {entry["host"], entry["node"]}:
                name = stage.get("name") or f"{stage['constraint']} {stage['detail']}".strip()
                own_keys = {"host", "node", "stage", "name"}
                values = {key: value for key, value in entry.items() if key not in own_keys}
                yield {"stage": category, "name": name, **values}


def _is_complete_for(recorded: RecordedFunnel, host: str) -> bool:
    """Return whether a funnel must list this host if a stage rejected it."""
    if recorded.funnel is None:
        return False
    if any(host in {entry["host"], entry["node"]} for entry in recorded.best):
        return True
    candidates = recorded.funnel[CANDIDATES]
    has_counts = bool(candidates.get("steps")) or not candidates["hosts"]
    return has_counts and all(
        stage["before"] - stage["after"] == len(stage.get("rejected", ()))
        for _, stage in _iterate_stages(recorded)
    )


def _iterate_stages(recorded: RecordedFunnel) -> Iterator[tuple[str, Json]]:
    funnel = recorded.funnel or {}
    candidates = funnel.get(CANDIDATES, {})
    for steps in (candidates.get("steps", ()), candidates.get("fallback", {}).get("steps", ())):
        for step in steps:
            yield CANDIDATES, step
    for report in funnel.get(FILTERS, ()):
        yield FILTERS, report
    for report in funnel.get("later_instance", {}).get("filters", ()):
        yield "later_instance", report


def replay(
    scheduler: Scheduler,
    decision: Decision,
    *,
    settings: str = CURRENT_SETTINGS,
    view: ExplanationView | None = None,
) -> Json:
    """Explain a recorded request again, and compare the results.

    ``settings`` is :data:`CURRENT_SETTINGS`, or :data:`RECORDED_SETTINGS` for the settings recorded
    with the decision. The overrides and changes of a recorded explanation apply in both cases. If a
    host that was chosen then is not chosen now, ``verdicts`` give the reasons. Raises
    :class:`Invalid` if recorded settings are missing or no longer valid, and the errors of
    :meth:`Scheduler.explain`.
    """
    changes = scheduler.read_changes(decision.conditions.changes if decision.conditions else ())
    view = view or ExplanationView()
    return scheduler.run_with(
        changes, lambda evaluator: _replay_run(evaluator, decision, settings, view)
    )


def _replay_run(
    scheduler: Evaluator, decision: Decision, settings: str, view: ExplanationView
) -> Json:
    conditions = decision.conditions or Conditions()
    document, differing = build_request(scheduler, decision, conditions)
    if settings == CURRENT_SETTINGS:
        overrides = conditions.overrides
    elif decision.conditions is None:
        raise Invalid(
            f"the settings of decision {decision.uuid}, made by an earlier release, are not "
            f"recorded: replay it with the settings of {CURRENT_SETTINGS!r}"
        )
    else:
        overrides = build_restoring_overrides(conditions, scheduler.live.get_settings())
    request = scheduler.reader.read(
        document, alternates=conditions.alternates, policy=conditions.policy, overrides=overrides
    )
    seed = DecisionSeed(decision.uuid, conditions.attempt)
    request = scheduler.reader.validate(request)
    with scheduler.source.read() as connection:
        run = scheduler.evaluate(connection, request, seed=seed)
        explanation, funnel = make_explanation(connection, run, view, is_recorded=True)
        replayed = build_decision_view(
            make_decision(run, funnel, EXPLAIN, NO_REQUEST, conditions.changes)
        )
        explanation |= _explain_lost_hosts(connection, run, decision)
    recorded = build_decision_view(decision)
    if decision.conditions is None:
        replayed["conditions"] = None
    for key in conditions.left_out:
        replayed["conditions"]["options"].pop(key, None)
    differing += list(find_differences(recorded, replayed))
    return {
        "then": recorded,
        "now": explanation,
        "differences": [asdict(item) for item in differing],
    }


def _explain_lost_hosts(connection: Connection, run: SchedulingRun, decision: Decision) -> Json:
    chosen = {best.service_host for best, *_ in run.selections}
    hosts = dict.fromkeys(place.host for place in decision.instances if place.host is not None)
    lost = [host for host in hosts if host not in chosen][:MAX_REPLAY_VERDICTS]
    if not lost:
        return {}
    host_verdicts = build_verdicts(connection, run, map_reported_trees(connection, lost))
    return {"verdicts": [verdict.as_json() for verdict in host_verdicts]}
