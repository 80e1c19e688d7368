"""``python -m tests.differential``: random requests to both services; tells what differs."""

import argparse
import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from time import monotonic

from tests.differential.duel import Duel, Finding, Tally
from tests.differential.shrink import shrink
from tests.differential.sides import PEER_PYTHON, Ours, Peer

CASES = Path(__file__).parent / "cases"


def main() -> int:
    """Run, print, and return 1 where anything differs without an explanation."""
    asked = _arguments()
    folder = Path(tempfile.mkdtemp())
    ours = Ours(asked.ours or f"sqlite:///{folder / 'ours.db'}")
    theirs = Peer(asked.theirs or f"sqlite:///{folder / 'theirs.db'}", asked.peer)
    duel = Duel(ours, theirs)
    show = _Show(duel, asked)
    try:
        requests = _phase("requests", duel.run, asked.seeds, asked.requests, show)
        questions = _phase("questions", duel.inquire, asked.seeds, asked.questions, show)
    finally:
        theirs.close()
        ours.close()
        shutil.rmtree(folder)
    _sum_up("requests", requests)
    _sum_up("questions", questions)
    print(f"{questions.served} questions found somebody, {questions.candidates} candidates in all")
    return 1 if requests.findings or questions.findings else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=range(1, 11), help="1 to 10")
    parser.add_argument("--requests", type=int, default=2000, help="of each seed, of every kind")
    parser.add_argument(
        "--questions", type=int, default=500, help="of each seed, for all candidates of a cloud"
    )
    parser.add_argument("--peer", type=Path, default=PEER_PYTHON, help="the peer's interpreter")
    parser.add_argument("--ours", help="database URL of ours; default: SQLite")
    parser.add_argument("--theirs", help="database URL of the peer; default: SQLite")
    parser.add_argument(
        "--shrink",
        type=float,
        default=60,
        help="seconds to cut a history short; 0 shows the last request only",
    )
    parser.add_argument("--most", type=int, default=10, help="how many kinds of findings are shown")
    parser.add_argument(
        "--keep", action="store_true", help=f"keep what is shown as a case in {CASES.name}/"
    )
    return parser.parse_args()


class _Show:
    """Shows the first finding of each kind."""

    def __init__(self, duel: Duel, asked: argparse.Namespace) -> None:
        self._duel = duel
        self._asked = asked
        self._shown: set[tuple[str, ...]] = set()

    def __call__(self, seed: int, finding: Finding) -> None:
        if finding.kind in self._shown or len(self._shown) >= self._asked.most:
            return
        self._shown.add(finding.kind)
        if self._asked.shrink:
            finding = shrink(self._duel, finding, self._asked.shrink)
        _print(finding, whole=bool(self._asked.shrink))
        if self._asked.keep:
            _keep(finding, seed, len(self._shown))


def _phase(
    noun: str,
    run: Callable[[int, int], Tally],
    seeds: Iterable[int],
    many: int,
    show: _Show,
) -> Tally:
    total = Tally()
    for seed in seeds if many else ():
        since = monotonic()
        tally = run(seed, many)
        _tell(f"seed {seed}: {tally.requests} {noun}", tally, monotonic() - since)
        for finding in tally.findings:
            show(seed, finding)
        total.add(tally)
    return total


def _tell(words: str, tally: Tally, seconds: float) -> None:
    statuses = ", ".join(f"{status}: {count}" for status, count in sorted(tally.statuses.items()))
    print(
        f"{words} in {seconds:.0f} s ({statuses}), "
        f"{sum(tally.explained.values())} explained, {len(tally.findings)} unexplained",
        flush=True,
    )
    for kind, count in Counter(finding.kind for finding in tally.findings).most_common():
        print(f"    {count} x {' '.join(kind)}")


def _sum_up(noun: str, total: Tally) -> None:
    print(f"{total.requests} {noun}, {len(total.findings)} unexplained differences; explained:")
    for name, count in total.explained.most_common():
        print(f"{count:6}  {name}")


def _print(finding: Finding, *, whole: bool) -> None:
    print("--- differs after:")
    for request in finding.history if whole else finding.history[-1:]:
        print("   ", json.dumps(request.as_json()))
    for aspect, (ours, theirs) in finding.differences.items():
        print(f"  {aspect}\n    ours:  {_short(ours)}\n    peer:  {_short(theirs)}")
    sys.stdout.flush()


def _short(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) < 1500 else f"{text[:1500]} ..."


def _keep(finding: Finding, seed: int, number: int) -> None:
    """Write the history as a case; whoever mends the cause names it better."""
    CASES.mkdir(exist_ok=True)
    lines = ",\n".join(f"  {json.dumps(request.as_json())}" for request in finding.history)
    path = CASES / f"seed-{seed}-{number}.json"
    path.write_text(f"[\n{lines}\n]\n")
    print(f"kept as {path}")


if __name__ == "__main__":
    sys.exit(main())
