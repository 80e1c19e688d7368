"""``python -m tests.differential.hosts``: the same random hosts to nova's classes and to us."""

import argparse
import json
import logging
import sys
from collections import Counter
from pathlib import Path
from time import monotonic

from tests.differential.hosts.duel import Duel, Finding, Tally
from tests.differential.hosts.shrink import shrink
from tests.differential.hosts.sides import Ours, Theirs
from tests.differential.sides import PEER_PYTHON

CASES = Path(__file__).parent / "cases"


def main() -> int:
    """Run, print, and return 1 where anything differs without an explanation."""
    asked = _arguments()
    # What is ignored in options and metadata is told by a warning, of which there are thousands.
    logging.disable()
    theirs = Theirs(asked.peer)
    try:
        total = _run(Duel(Ours(), theirs), asked)
    finally:
        theirs.close()
    if asked.verdicts:
        _tell_verdicts(total)
    print(
        f"{total.cases} cases, {total.hosts} hosts of which {total.weighed} were weighed, "
        f"{total.later} instances after others of their request, "
        f"{len(total.findings)} unexplained differences; explained:"
    )
    for name, count in total.explained.most_common():
        print(f"{count:6}  {name}")
    return 1 if total.findings else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.differential.hosts", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=range(1, 5), help="1 to 4")
    parser.add_argument("--cases", type=int, default=1000, help="of each seed")
    parser.add_argument("--peer", type=Path, default=PEER_PYTHON, help="the peer's interpreter")
    parser.add_argument("--most", type=int, default=10, help="how many kinds of findings are shown")
    parser.add_argument("--keep", action="store_true", help="keep what is shown in cases/")
    parser.add_argument("--verdicts", action="store_true", help="tell how often nova said what")
    return parser.parse_args()


def _run(duel: Duel, asked: argparse.Namespace) -> Tally:
    total = Tally()
    shown: set[tuple[str, ...]] = set()
    for seed in asked.seeds:
        since = monotonic()
        tally = duel.run(seed, asked.cases, lambda done, seed=seed: _progress(seed, done))
        _tell(seed, tally, monotonic() - since)
        for finding in tally.findings:
            if finding.kind in shown or len(shown) >= asked.most:
                continue
            shown.add(finding.kind)
            least = shrink(duel, finding)
            _print(least)
            if asked.keep:
                _keep(least, seed, len(shown))
        total.add(tally)
    return total


def _progress(seed: int, done: int) -> None:
    if done % 50 == 0 and sys.stderr.isatty():
        print(f"seed {seed}: {done} cases", end="\r", file=sys.stderr, flush=True)


def _tell(seed: int, tally: Tally, seconds: float) -> None:
    print(
        f"seed {seed}: {tally.cases} cases in {seconds:.0f} s, "
        f"{sum(tally.explained.values())} explained, {len(tally.findings)} unexplained",
        flush=True,
    )
    for kind, count in Counter(finding.kind for finding in tally.findings).most_common():
        print(f"    {count} x {'; '.join(kind)}")


def _tell_verdicts(tally: Tally) -> None:
    for (name, said), count in sorted(tally.verdicts.items()):
        print(f"{count:6}  {name} {said}")
    for name, count in sorted(tally.telling.items()):
        print(f"{count:6}  {name} tells hosts apart")


def _print(finding: Finding) -> None:
    print("--- differs for:")
    print("   ", json.dumps(finding.case.kept()))
    for aspect, (ours, theirs) in finding.differences.items():
        print(f"  {' '.join(aspect)}\n    ours:  {ours}\n    nova:  {theirs}", flush=True)


def _keep(finding: Finding, seed: int, number: int) -> None:
    """Write the case; whoever mends the cause names it better."""
    CASES.mkdir(exist_ok=True)
    path = CASES / f"seed-{seed}-{number}.json"
    path.write_text(json.dumps(finding.case.kept(), indent=2) + "\n")
    print(f"kept as {path}")


if __name__ == "__main__":
    sys.exit(main())
