# SPDX-License-Identifier: Apache-2.0
"""Recorded decisions: which values are stored, and size limits.

Every call of ``select_destinations`` is recorded as a decision, even without a valid host. An
explanation is recorded only on request.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson
from oslo_config import cfg
from oslo_log import log

from placement_sched import errors
from placement_sched.config.conf import list_server_options
from placement_sched.config.settings import Settings, cached_by_settings
from placement_sched.explain import phrases
from placement_sched.explain.values import Funnel, build_hosts_json
from placement_sched.limits import (
    MAX_BEST_HOSTS,
    MAX_FUNNEL_BYTES,
    MAX_RECORDED_OPTIONS_BYTES,
    MAX_RECORDED_REJECTIONS,
)
from placement_sched.model import decision as results
from placement_sched.model.aggregates import DEFAULT_POLICY
from placement_sched.model.context import RequestIds
from placement_sched.model.decision import (
    Conditions,
    Decision,
    DecisionLabels,
    ReasonLabels,
    RequestResult,
    SchedulingResult,
)
from placement_sched.model.document import Json
from placement_sched.model.rejection import OTHER
from placement_sched.scheduler.selection import SchedulingRun

LOG = log.getLogger(__name__)

#: Maximum numbers of recorded characters of a name, and of the kind of a reason.
_MAX_NAME, _MAX_KIND = 255, 64


@cached_by_settings
def select_recorded_options(settings: Settings) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Map ``group.option`` to recorded values, and list too large options."""
    changed = {
        f"{group}.{name}": value
        for group, name, option in _iterate_request_options(settings)
        if (value := getattr(getattr(settings, group), name)) != option.default
    }
    sizes = {key: len(orjson.dumps(value, default=str)) for key, value in changed.items()}
    recorded, remaining = {}, MAX_RECORDED_OPTIONS_BYTES
    for key in sorted(changed, key=lambda key: (sizes[key], key)):
        remaining -= len(key) + sizes[key]
        if remaining >= 0:
            recorded[key] = changed[key]
    # An option of a plugin may have any type. A value without a JSON form is recorded as text.
    document = orjson.loads(orjson.dumps(dict(sorted(recorded.items())), default=str))
    return document, tuple(sorted(set(changed) - set(recorded)))


def build_restoring_overrides(conditions: Conditions, settings: Settings) -> dict[str, Any]:
    """Return overrides that restore the option values of a recorded decision.

    None restores the default. Options that were not recorded, or no longer exist, have no override.
    """
    keys = {f"{group}.{name}" for group, name, _ in _iterate_request_options(settings)}
    return {
        key: conditions.options.get(key) for key in sorted(keys.difference(conditions.left_out))
    }


def _iterate_request_options(settings: Settings) -> Iterator[tuple[str, str, cfg.Opt]]:
    """Yield the options that may vary per request, except secrets."""
    fixed = list_server_options()
    for group, members in settings.registered.items():
        for name, option in members.items():
            if (group, name) not in fixed and not option.secret:
                yield group, name, option


def make_decision(
    run: SchedulingRun, funnel: Funnel, kind: str, ids: RequestIds, changes: Sequence[Json] = ()
) -> Decision:
    """Build the decision about a run, with simulated ``changes``, if any."""
    spec = run.request.spec
    result = _build_new_result(run)
    chosen: list[str | None] = [best.service_host for best, *_ in run.selections]
    hosts = chosen or [None] * len(spec.instance_uuids)
    decision = Decision(
        uuid=result.uuid,
        outcome=results.SELECTED if run.selections else results.NO_VALID_HOST,
        project_id=spec.project_id,
        digest=run.request.digest,
        request=spec.as_document(),
        result=result.as_json(),
        instances=tuple(map(results.PlacedInstance, spec.instance_uuids, hosts)),
        funnel=limit_size(funnel),
        best=_list_best_hosts(run),
        conditions=_build_conditions(run, changes),
        policy=result.policy,
        flavor=spec.flavor.name[:_MAX_NAME] or None,
        kind=kind,
        request_ids=ids,
    )
    if (obstacle := funnel.obstacle) is None:
        return decision
    return replace(
        decision,
        stage=(obstacle.title or obstacle.stage)[:_MAX_NAME],
        reason=obstacle.reason,
        reason_kind=obstacle.kind[:_MAX_KIND],
        reason_subject=obstacle.subject or None,
    )


def _build_conditions(run: SchedulingRun, changes: Sequence[Json]) -> Conditions:
    request = run.request
    options, left_out = select_recorded_options(request.settings)
    return Conditions(
        options=options,
        left_out=left_out,
        overrides=request.overrides,
        policy=request.named_policy,
        changes=tuple(changes),
        alternates=request.alternates > 0,
        names_group=request.names_group,
        attempt=run.seed.attempt,
        together=request.is_joint,
    )


def _list_best_hosts(run: SchedulingRun) -> list[Json]:
    """List the best hosts, with weighers that give any of them a weight."""
    if run.choice is None:
        return []
    first = run.choice.first
    hosts = build_hosts_json(first.weighed.build_reports(first.ordered[:MAX_BEST_HOSTS]))
    effective = {
        name for host in hosts for name, weight in host["weights"].items() if weight["weighted"]
    }
    for host in hosts:
        weights = host["weights"].items()
        host["weights"] = {name: weight for name, weight in weights if name in effective}
    return hosts


def check_recorded_size(overrides: Mapping[str, Any], changes: Sequence[Json]) -> None:
    """Reject overrides or changes that are too large to record."""
    for name, value in (("overrides", overrides), ("changes", changes)):
        if len(orjson.dumps(value)) > MAX_RECORDED_OPTIONS_BYTES:
            raise errors.Invalid(
                f"{name}: too large to record: more than {MAX_RECORDED_OPTIONS_BYTES} bytes of JSON"
            )


def build_result(run: SchedulingRun, decision: Decision) -> SchedulingResult:
    """Build the result of a run, with the recorded decision."""
    labels = DecisionLabels(decision.outcome, decision.policy or DEFAULT_POLICY)
    return replace(_build_new_result(run), decision=decision, funnel=decision.funnel, labels=labels)


def _build_new_result(run: SchedulingRun) -> SchedulingResult:
    chosen, spec = run.request.chosen, run.request.spec
    return SchedulingResult(
        uuid=run.seed.decision,
        policy=chosen.report.name if chosen and chosen.report else DEFAULT_POLICY,
        selections=run.selections,
        # Generated uuids are part of the response.
        instance_uuids=None if spec.as_document().get("instance_uuids") else spec.instance_uuids,
    )


def build_no_valid_host(
    funnel: Funnel, decision: Decision, entry: str | None = None
) -> errors.NoValidHost:
    """Build the error for a request, with its JSON path if there are several."""
    obstacle = funnel.obstacle
    reason = f": {obstacle.reason}" if obstacle else ""
    extra: Json = {"funnel": funnel.document, "decision": decision.uuid}
    name = ""
    if entry is not None:
        extra["request"] = entry
        name = f" for {entry.removeprefix('$.')}"
    error = errors.NoValidHost(f"No valid host was found{name}{reason}", extra=extra)
    stage, label = (obstacle.stage, obstacle.label) if obstacle else ("", "")
    labels = DecisionLabels(decision.outcome, decision.policy or DEFAULT_POLICY, stage, label)
    reason_labels = None
    if obstacle is not None:
        kind = obstacle.kind if obstacle.kind in phrases.CODES else OTHER
        reason_labels = ReasonLabels(kind, obstacle.values.get("resource_class", ""))
    error.result = RequestResult(
        decision=decision, funnel=decision.funnel, labels=labels, reason=reason_labels
    )
    return error


def limit_size(funnel: Funnel) -> Json:
    """Shorten the lists of a funnel to fit the size limit, with exact counts.

    A funnel that is still too large is reduced to its shortened query, counts and weighers.
    """
    body = funnel.document
    for length in (MAX_RECORDED_REJECTIONS, 20, 3):
        body = _shorten_lists(body, length)
        if len(orjson.dumps(body)) <= MAX_FUNNEL_BYTES:
            return body
    search = body["allocation_candidates"]
    return {
        "request_filters": _select_keys(body["request_filters"], "name", "applied", "elapsed_ms"),
        "allocation_candidates": {
            "query": search["query"][: MAX_FUNNEL_BYTES // 4],
            "providers": search["providers"],
            "hosts": search["hosts"],
            "steps": _select_keys(search["steps"][:100], "constraint", "before", "after"),
        },
        "filters": _select_keys(body["filters"], "name", "before", "after"),
        "weighers": body["weighers"],
        "outline": True,
    }


def _shorten_lists(part: Json, length: int) -> Json:
    """Shorten the lists of rejected hosts and near misses in a funnel."""
    shortened = dict(part)
    for key in ("allocation_candidates", "fallback", "later_instance"):
        if key in part:
            shortened[key] = _shorten_lists(part[key], length)
    for key in ("steps", "filters"):
        if key in part:
            shortened[key] = [
                {**stage, "rejected": stage["rejected"][:length]} for stage in part[key]
            ]
    if len(misses := part.get("nearest_misses", ())) > length:
        shortened |= {"nearest_misses": misses[:length], "nearest_misses_complete": False}
    return shortened


def _select_keys(entries: list[Json], *names: str) -> list[Json]:
    return [{name: entry[name] for name in names} for entry in entries]
