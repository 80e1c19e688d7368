"""``python -m tests.differential.nova``: the same random requests to nova's functions and to us."""

import argparse
import json
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from time import monotonic

from tests.differential.nova.duel import Duel, Finding, Tally
from tests.differential.nova.shrink import shrink
from tests.differential.nova.sides import Ours, Theirs
from tests.differential.sides import PEER_PYTHON

CASES = Path(__file__).parent / "cases"


def main() -> int:
    """Run, print, and return 1 where anything differs without an explanation."""
    asked = _arguments()
    folder = Path(tempfile.mkdtemp())
    ours = Ours(f"sqlite:///{folder / 'ours.db'}")
    theirs = Theirs(f"sqlite:///{folder / 'theirs.db'}", asked.peer)
    try:
        total = _run(Duel(ours, theirs), asked)
    finally:
        theirs.close()
        ours.close()
        shutil.rmtree(folder)
    print(f"{total.requests} requests, {len(total.findings)} unexplained differences; explained:")
    for name, count in total.explained.most_common():
        print(f"{count:6}  {name}")
    return 1 if total.findings else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.differential.nova", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=range(1, 5), help="1 to 4")
    parser.add_argument("--requests", type=int, default=1000, help="of each seed")
    parser.add_argument("--peer", type=Path, default=PEER_PYTHON, help="the peer's interpreter")
    parser.add_argument("--most", type=int, default=10, help="how many kinds of findings are shown")
    parser.add_argument("--keep", action="store_true", help="keep what is shown in cases/")
    return parser.parse_args()


def _run(duel: Duel, asked: argparse.Namespace) -> Tally:
    total = Tally()
    shown: set[tuple[str, ...]] = set()
    for seed in asked.seeds:
        since = monotonic()
        tally = duel.run(seed, asked.requests, lambda done, seed=seed: _progress(seed, done))
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
        print(f"seed {seed}: {done} requests", end="\r", file=sys.stderr, flush=True)


def _tell(seed: int, tally: Tally, seconds: float) -> None:
    verdicts = ", ".join(f"{verdict}: {count}" for verdict, count in tally.verdicts.most_common())
    print(
        f"seed {seed}: {tally.requests} requests in {seconds:.0f} s (nova {verdicts}), "
        f"{sum(tally.explained.values())} explained, {len(tally.findings)} unexplained",
        flush=True,
    )
    for kind, count in Counter(finding.kind for finding in tally.findings).most_common():
        print(f"    {count} x {' '.join(kind)}")


def _print(finding: Finding) -> None:
    print("--- differs for:")
    print("   ", json.dumps(finding.asked.kept()))
    for aspect, (ours, theirs) in finding.differences.items():
        print(f"  {aspect}\n    ours:  {ours}\n    nova:  {theirs}", flush=True)


def _keep(finding: Finding, seed: int, number: int) -> None:
    """Write the request as a case; whoever mends the cause names it better."""
    CASES.mkdir(exist_ok=True)
    path = CASES / f"seed-{seed}-{number}.json"
    path.write_text(json.dumps(finding.asked.kept(), indent=2) + "\n")
    print(f"kept as {path}")


if __name__ == "__main__":
    sys.exit(main())
