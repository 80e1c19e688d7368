"""What became of one host in a run: it passed, it was rejected and why, or it is not known."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from placement_sched.model.report import FilterReport, RequestFilterReport, StepReport

Json = dict[str, Any]

PASSED = "passed"
REJECTED = "rejected"
UNKNOWN = "unknown"

#: The families of stages, as the funnel names them.
REQUEST_FILTERS = "request_filters"
CANDIDATES = "allocation_candidates"
FILTERS = "filters"


@dataclass(frozen=True, slots=True)
class Reason:
    """One stage that rejects a host: its family, its name in the funnel, and why."""

    stage: str
    name: str
    reason: str

    @classmethod
    def of_request_filter(cls, report: RequestFilterReport) -> "Reason":
        """Return the reason of a request filter that refused the whole request."""
        return cls(REQUEST_FILTERS, report.name, report.refusal or "")

    @classmethod
    def of_step(cls, step: StepReport, before: str = "") -> "Reason":
        """Return the reason of a step of the search; ``before`` goes before its name."""
        (rejected,) = step.rejected
        return cls(CANDIDATES, f"{before}{step.label}", rejected.reason)

    @classmethod
    def of_filters(cls, report: FilterReport) -> Iterator["Reason"]:
        """Yield the reason of each host that a stage rejected."""
        for rejected in report.rejected:
            yield cls(FILTERS, report.name, rejected.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostVerdict:
    """The verdict on one compute node that an explanation was asked about, by any of its names.

    ``asked`` is the name that was given. A provider that is no known compute node has its name as
    ``host`` and ``node``, and no ``compute_node_uuid``. ``rank`` counts from 1, among ``of`` hosts
    that passed. ``did_you_mean`` are known names near to one that is not known.
    """

    asked: str
    verdict: str
    host: str | None = None
    node: str | None = None
    compute_node_uuid: str | None = None
    rank: int | None = None
    of: int | None = None
    weight: float | None = None
    reasons: tuple[Reason, ...] = ()
    did_you_mean: tuple[str, ...] = ()

    def as_json(self) -> Json:
        """Return the entry of ``verdicts``; every key is always there."""
        return {
            **asdict(self),
            "reasons": [asdict(reason) for reason in self.reasons],
            "did_you_mean": list(self.did_you_mean),
        }
