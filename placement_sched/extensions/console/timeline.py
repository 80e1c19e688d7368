# SPDX-License-Identifier: Apache-2.0
"""Chart of decisions over time, 100 units wide and high."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from placement_sched.model.decision import NO_VALID_HOST, SELECTED
from placement_sched.model.document import Json

_WIDTH = 100.0
#: Minimum number of intervals of a timeline that begins with the first decision.
_MIN_INTERVALS = 40


@dataclass(frozen=True, slots=True)
class TimelineBar:
    """The decisions of an interval, as a bar for each outcome.

    ``placed`` and ``failed`` are the heights of the bars, and ``numbers`` are the counts.
    """

    start: float
    width: float
    placed: float
    failed: float
    numbers: tuple[int, int]
    since: str
    until: str


@dataclass(frozen=True, slots=True)
class TimelinePicture:
    """Bars of decisions over time.

    A bar is at most 100 units high.
    """

    bars: tuple[TimelineBar, ...]
    since: str
    until: str
    largest: int


def build_timeline_picture(counts: Json, *, is_whole: bool = False) -> TimelinePicture:
    """Build the chart of ``GET /decision_counts``.

    With ``is_whole``, ``counts`` begin with the first decision. The chart then begins earlier if
    there are few intervals, so that no bar is as wide as the chart.
    """
    seconds = counts["bucket_seconds"]
    begin, end = (datetime.fromisoformat(counts[name]) for name in ("since", "until"))
    starts = [datetime.fromisoformat(bucket["begin"]) for bucket in counts["buckets"]]
    begin = min([begin, *starts])
    end = max([end, *(start + timedelta(seconds=seconds) for start in starts)])
    if is_whole:
        begin = min(begin, end - timedelta(seconds=seconds * _MIN_INTERVALS))
    span = max((end - begin).total_seconds(), seconds)
    numbers = [(bucket[SELECTED], bucket[NO_VALID_HOST]) for bucket in counts["buckets"]]
    largest = max(map(sum, numbers), default=0)
    return TimelinePicture(
        bars=tuple(
            TimelineBar(
                start=_WIDTH * (start - begin).total_seconds() / span,
                width=_WIDTH * seconds / span,
                placed=_WIDTH * placed / largest,
                failed=_WIDTH * failed / largest,
                numbers=(placed, failed),
                since=start.isoformat(),
                until=(start + timedelta(seconds=seconds)).isoformat(),
            )
            for start, (placed, failed) in zip(starts, numbers, strict=True)
        ),
        since=begin.isoformat(),
        until=end.isoformat(),
        largest=largest,
    )
