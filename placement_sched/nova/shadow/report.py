"""The report of a shadow: how often nova and this service agree, and why not where they do not."""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime

from placement_sched.model.document import Json
from placement_sched.model.shadow_result import AGREEING, DISAGREEING, OPEN, ShadowResult
from placement_sched.nova.shadow.comparing import verdict_of_all

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
    "pending": "nova's choice not known yet",
}
#: How a summary calls a place where there is none.
_NO_HOST = "no host"


def report_of(results: Iterable[ShadowResult], since: datetime | None = None) -> Json:
    """Return the report on these results: counts of requests by verdict, and disagreements.

    A request of several instances has the gravest of their verdicts. ``agreement`` is a percentage
    of the requests that could be compared; None where there are none.
    """
    requests: dict[str, list[ShadowResult]] = {}
    for one in results:
        requests.setdefault(one.decision, []).append(one)
    verdicts = Counter(
        verdict_of_all(one.verdict for one in instances) for instances in requests.values()
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
            _explained(one)
            for instances in requests.values()
            for one in instances
            if one.verdict in DISAGREEING
        ],
    }


def _explained(one: ShadowResult) -> Json:
    detail = one.detail
    return {
        "request_id": one.request_ids.request_id or detail.get("request_id"),
        "decision": None if one.verdict == "failed" else one.decision,
        "at": None if one.created_at is None else one.created_at.isoformat(),
        "instance": one.instance,
        "flavor": one.flavor,
        "verdict": one.verdict,
        "our_host": one.our_host,
        "our_weight": detail.get("our_weight"),
        "nova_host": one.nova_host,
        "nova_weight": detail.get("nova_weight"),
        "why": detail.get("why"),
    }


def lines_of(report: Json) -> Iterator[str]:
    """Yield the report in lines of text."""
    when = f" since {report['since']}" if report["since"] else ""
    if not report["requests"]:
        yield f"no request was evaluated beside nova-scheduler{when}"
        return
    requests, instances = report["requests"], report["instances"]
    yield f"{_number(requests, 'request')} for {_number(instances, 'instance')}{when}"
    if report["compared"]:
        compared = _number(report["compared"], "compared request")
        yield f"{report['agreement']:g} % of {compared} agree with nova's choice"
    else:
        yield "none could be compared yet"
    yield ""
    for verdict, count in report["verdicts"].items():
        share = f"{100 * count / report['compared']:5.1f} %" if _counts(report, verdict) else ""
        yield f"  {count:6}  {share:7}  {WORDS[verdict]}"
    for one in report["disagreements"]:
        yield ""
        flavor = f", flavor {one['flavor']}" if one["flavor"] else ""
        yield f"{one['request_id'] or 'no request id'} at {one['at']}: {WORDS[one['verdict']]}"
        yield f"  instance {one['instance']}{flavor}"
        if one["verdict"] != "failed":
            ours = _place(one["our_host"], one["our_weight"])
            yield f"  here: {ours}; nova: {_place(one['nova_host'], one['nova_weight'])}"
        if one["why"]:
            yield f"  {one['why']}"
        if one["decision"]:
            yield f"  decision {one['decision']}"


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _counts(report: Json, verdict: str) -> bool:
    """Return whether a verdict has a share in the requests that were compared."""
    return bool(report["compared"]) and verdict not in OPEN


def _place(host: str | None, weight: float | None) -> str:
    if host is None:
        return _NO_HOST
    return host if weight is None else f"{host} (weight {weight:g})"
