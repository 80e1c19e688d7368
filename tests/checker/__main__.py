# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.checker --url URL --seeds 1-100``: check a service that runs already.

The service must have no resource providers and ``[scheduler] enable_isolated_aggregate_filtering``.
False responses are printed, and the number of comparisons by kind. The exit status is 1 if a
response is false.
"""

import argparse
import sys
from collections import Counter

import requests

from tests.checker.api import Api
from tests.checker.cloud import CLOUD_LAYOUTS
from tests.checker.comparisons import compare_responses


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.checker", description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8778", help="address of the service")
    parser.add_argument("--seeds", default="1-10", metavar="FIRST-LAST", help="default: 1-10")
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    api = Api(_build_request_sender(options.url.rstrip("/")))
    if api.send_json("GET", "/placement/resource_providers")["resource_providers"]:
        parser.error(f"the service at {options.url} has resource providers already")
    counts: Counter[tuple[str, str]] = Counter()
    for seed in range(int(first), int(last or first) + 1):
        for layout in CLOUD_LAYOUTS:
            for comparison in compare_responses(api, seed, layout):
                counts[comparison.kind, "true" if comparison.is_true else "false"] += 1
                if not comparison.is_true:
                    print(comparison, flush=True)
        print(f"seed {seed}: {counts.total()} comparisons", file=sys.stderr)
    for (kind, verdict), count in sorted(counts.items()):
        print(f"{kind:12} {verdict:5} {count:6}")
    return int(any(verdict == "false" for _, verdict in counts))


def _build_request_sender(url: str):
    session = requests.Session()

    def send_request(
        method: str, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, bytes]:
        response = session.request(method, url + path, headers=headers, data=body, timeout=60)
        return response.status_code, response.content

    return send_request


if __name__ == "__main__":
    sys.exit(main())
