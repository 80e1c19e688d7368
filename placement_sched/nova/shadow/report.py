# SPDX-License-Identifier: Apache-2.0
"""Report of nova-shadow: agreement of nova and this service, and differences."""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime

from placement_sched.model.document import Json
from placement_sched.model.shadow_result import AGREEING, DISAGREEING, OPEN, ShadowResult
from placement_sched.nova.shadow.comparing import worst_verdict

#: Each verdict in words, in the order of the report.
WORDS = {
    "same_host": "the same host",
    "equal_weight": "another host of equal weight, or other order of equal hosts",
    "both_no_host": "neither found a host",
    "other_host": "another host",
    "only_nova": "only nova found a host",
    "only_ours": "only this service found a host",
    "failed": "could not be evaluated here",
    "alternate": "only the host of nova's later attempt is known",
    "unknown": "not comparable",
    "pending": "nova's choice pending",
}
#: The text of a summary for a missing host.
_NO_HOST = "no host"


def report_of(results: Iterable[ShadowResult], since: datetime | None = None) -> Json:
    """Build the report on results: counts of requests by verdict, and disagreements.

    A request has the gravest verdict of its instances. ``agreement`` is a percentage of the
    comparable requests, or None if there are none.
    """
    requests: dict[str, list[ShadowResult]] = {}
    for result in results:
        requests.setdefault(result.decision, []).append(result)
    verdicts = Counter(
        worst_verdict(result.verdict for result in instances) for instances in requests.values()
    )
    agreeing = sum(verdicts[verdict] for verdict in AGREEING)
    compared = agreeing + sum(verdicts[verdict] for verdict in DISAGREEING)
    return {
        "since": None if since is None else since.isoformat(),
        "requests": len(requests),
        "instances": sum(map(len, requests.values())),
        "compared": compared,
        "agreement": round(100 * agreeing / compared, 2) if compared else None,
        "verdicts": {verdict: verdicts[verdict] for verdict in WORDS if verdicts[verdict]},
        "disagreements": [
            _describe_disagreement(result)
            for instances in requests.values()
            for result in instances
            if result.verdict in DISAGREEING
        ],
    }


def _describe_disagreement(result: ShadowResult) -> Json:
    detail = result.detail
    return {
        "request_id": result.request_ids.request_id or detail.get("request_id"),
        "decision": None if result.verdict == "failed" else result.decision,
        "at": None if result.created_at is None else result.created_at.isoformat(),
        "instance": result.instance,
        "flavor": result.flavor,
        "verdict": result.verdict,
        "our_host": result.our_host,
        "our_weight": detail.get("our_weight"),
        "nova_host": result.nova_host,
        "nova_weight": detail.get("nova_weight"),
        "why": detail.get("why"),
    }


def format_report(report: Json) -> Iterator[str]:
    """Yield the report as lines of text."""
    when = f" since {report['since']}" if report["since"] else ""
    if not report["requests"]:
        yield f"no request was evaluated alongside nova-scheduler{when}"
        return
    requests, instances = report["requests"], report["instances"]
    yield f"{_pluralize(requests, 'request')} for {_pluralize(instances, 'instance')}{when}"
    if report["compared"]:
        compared = _pluralize(report["compared"], "compared request")
        yield f"{report['agreement']:g} % of {compared} agree with nova's choice"
    else:
        yield "no request could be compared yet"
    yield ""
    for verdict, count in report["verdicts"].items():
        share = f"{100 * count / report['compared']:5.1f} %" if _has_share(report, verdict) else ""
        yield f"  {count:6}  {share:7}  {WORDS[verdict]}"
    for item in report["disagreements"]:
        yield ""
        flavor = f", flavor {item['flavor']}" if item["flavor"] else ""
        yield f"{item['request_id'] or 'no request id'} at {item['at']}: {WORDS[item['verdict']]}"
        yield f"  instance {item['instance']}{flavor}"
        if item["verdict"] != "failed":
            ours = _host_text(item["our_host"], item["our_weight"])
            yield f"  here: {ours}; nova: {_host_text(item['nova_host'], item['nova_weight'])}"
        if item["why"]:
            yield f"  {item['why']}"
        if item["decision"]:
            yield f"  decision {item['decision']}"


def _pluralize(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _has_share(report: Json, verdict: str) -> bool:
    """Return whether a verdict counts among the compared requests."""
    return bool(report["compared"]) and verdict not in OPEN


def _host_text(host: str | None, weight: float | None) -> str:
    if host is None:
        return _NO_HOST
    return host if weight is None else f"{host} (weight {weight:g})"
