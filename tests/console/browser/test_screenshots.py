# SPDX-License-Identifier: Apache-2.0
"""The pictures of the console in README and guide (``make test-only WHAT=screenshots``).

A new picture differs in times and fonts, so only the sizes are compared.
"""

import os
import struct
from pathlib import Path

import pytest

from tests.support.repository import ROOT

pytestmark = pytest.mark.exhaustive

PICTURES = {
    "console-cloud.png": "/console/cloud?colour=used:MEMORY_MB",
    "console-ask.png": "/console/ask?flavor=g.large",
}
SIZE = {"width": 1280, "height": 820}
#: Bytes, so that the repository stays small.
LARGEST = 200_000
#: Set by ``make test-only WHAT=screenshots``: write the pictures rather than compare them.
WRITE = bool(os.environ.get("PLACEMENT_SCHED_WRITE_SCREENSHOTS"))


@pytest.mark.parametrize("name", PICTURES)
def test_guide_screenshots_match_the_pages(visit, tmp_path, name):
    page = visit(PICTURES[name], size=SIZE)
    page.wait_for_load_state("networkidle")
    drawn = tmp_path / name
    page.screenshot(path=drawn)
    kept = ROOT / "doc" / "source" / name
    if WRITE:
        kept.write_bytes(drawn.read_bytes())
    assert kept.stat().st_size < LARGEST
    assert read_image_size(kept) == read_image_size(drawn) == (SIZE["width"], SIZE["height"])


def read_image_size(save_screenshot: Path) -> tuple[int, int]:
    """Return the width and height of a PNG file."""
    width, height = struct.unpack(">II", save_screenshot.read_bytes()[16:24])
    return width, height
