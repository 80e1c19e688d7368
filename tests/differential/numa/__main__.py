"""``python -m tests.differential.numa``: the same random NUMA nodes to nova's fit and to ours."""

import argparse
import json
import sys
from pathlib import Path
from time import monotonic

from tests.differential.numa.duel import Duel
from tests.differential.numa.sides import Ours, Theirs
from tests.differential.sides import PEER_PYTHON


def main() -> int:
    """Run, print, and return 1 where anything differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential.numa", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=range(1, 5), help="1 to 4")
    parser.add_argument("--requests", type=int, default=5000, help="cases of each seed")
    parser.add_argument("--peer", type=Path, default=PEER_PYTHON, help="the peer's interpreter")
    parser.add_argument("--most", type=int, default=3, help="how many findings are shown")
    asked = parser.parse_args()
    theirs = Theirs(asked.peer)
    duel, differing = Duel(Ours(), theirs), 0
    try:
        for seed in asked.seeds:
            since = monotonic()
            tally = duel.run(seed, asked.requests)
            print(
                f"seed {seed}: {tally.cases} hosts in {monotonic() - since:.0f} s (nova passes "
                f"{tally.verdicts[True]}, refuses {tally.verdicts[False]} instances; {tally.exact} "
                f"compared CPU by CPU), {tally.mixed_up} mixed up and {tally.lost} lost by nova, "
                f"{len(tally.findings)} differences",
                flush=True,
            )
            for finding in tally.findings[: asked.most]:
                print(f"--- instance {finding.number} differs for:\n   ", json.dumps(finding.case))
                print("  ours: ", json.dumps(finding.ours))
                print("  nova: ", json.dumps(finding.theirs), flush=True)
            differing += len(tally.findings)
    finally:
        theirs.close()
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
