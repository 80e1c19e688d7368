# SPDX-License-Identifier: Apache-2.0
"""Comparison of the variants of a trace run, over the seeds."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from statistics import mean, median
from typing import Any

from placement_sched.extensions.traces.events import Trace
from placement_sched.extensions.traces.runs import RunResult, Variant
from placement_sched.model.document import Json

#: The compared figures of a run, and how differences name them.
FIGURES: Mapping[str, tuple[str, Callable[[RunResult], float]]] = {
    "refused": ("refused requests", lambda run: len(run.refusals)),
    "used_hosts": ("hosts in use at the end", lambda run: run.samples[-1].used_hosts),
    "empty_hosts": ("empty hosts at the end", lambda run: run.samples[-1].empty_hosts),
    "mean_used_hosts": (
        "hosts in use on average",
        lambda run: round(mean(sample.used_hosts for sample in run.samples), 1),
    ),
}


@dataclass(frozen=True, slots=True)
class VariantResult:
    """The runs of a variant, sorted by seed. At least a run has ended."""

    variant: Variant
    runs: tuple[RunResult, ...]

    def summarize(self, figure: str) -> Json:
        """Return median, least and greatest value of a figure."""
        _, measure = FIGURES[figure]
        values = [measure(run) for run in self.runs]
        return {"median": median(values), "min": min(values), "max": max(values)}

    def as_json(self) -> Json:
        """Return the variant with its figures and runs.

        The first refused request and the counts are of the first seed.
        """
        first = self.runs[0]
        return {
            "variant": self.variant.name,
            "overrides": dict(self.variant.overrides),
            "changes": [{change.kind: change.value} for change in self.variant.changes],
            **{figure: self.summarize(figure) for figure in FIGURES},
            "first_refused": _convert(first.refusals[0]) if first.refusals else None,
            "refused_by_flavor": dict(Counter(each.flavor for each in first.refusals)),
            "refused_by_subject": dict(
                Counter(each.subject or each.stage for each in first.refusals)
            ),
            "largest_flavor": first.largest_flavor,
            "runs": [_build_run(run) for run in self.runs],
        }


def build_comparison(trace: Trace, results: Sequence[VariantResult], *, is_complete: bool) -> Json:
    """Return the JSON object of a trace run.

    The first variant is compared with each other variant, unless the run is not complete.
    """
    events = trace.events
    return {
        "trace": trace.file,
        "events": len(events),
        "skipped": trace.skipped,
        "from": _format_time(events[0].time),
        "until": _format_time(events[-1].time),
        "complete": is_complete,
        "variants": [result.as_json() for result in results],
        "differences": list(_iterate_differences(results)) if is_complete else [],
    }


def _iterate_differences(results: Sequence[VariantResult]) -> Iterator[Json]:
    """Yield the differences to the first variant that hold in all seeds."""
    base = results[0]
    for compared in results[1:]:
        for figure, (name, measure) in FIGURES.items():
            pairs = zip(base.runs, compared.runs, strict=True)
            changes = [measure(new) - measure(old) for old, new in pairs]
            if min(changes) > 0 or max(changes) < 0:
                yield {
                    "variant": compared.variant.name,
                    "than": base.variant.name,
                    "figure": figure,
                    "name": name,
                    "median": round(median(changes), 1),
                    "min": round(min(changes), 1),
                    "max": round(max(changes), 1),
                }


def _build_run(run: RunResult) -> Json:
    document: Json = {"seed": run.seed, "events": run.events}
    document |= {figure: measure(run) for figure, (_, measure) in FIGURES.items()}
    document |= {
        "largest_flavor": run.largest_flavor,
        "ignored": run.ignored,
        "skipped": run.skipped,
        "kept_devices": run.kept_devices,
        "refusals": [_convert(refusal) for refusal in run.refusals],
        "samples": [_convert(sample) for sample in run.samples],
        "hosts": {uuid: server.host for uuid, server in sorted(run.servers.items())},
    }
    return document


def _convert(value: Any) -> Json:
    document = asdict(value)
    return {**document, "time": _format_time(document["time"])}


def _format_time(time: datetime) -> str:
    return f"{time.isoformat(timespec='seconds')}Z"
