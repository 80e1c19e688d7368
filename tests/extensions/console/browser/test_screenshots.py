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

URLS_BY_SCREENSHOT = {
    "console-cloud.png": "/console/cloud?colour=used:MEMORY_MB",
    "console-ask.png": "/console/ask?flavor=g.large",
}
SCREENSHOT_SIZE = {"width": 1280, "height": 820}
#: Bytes, so that the repository stays small.
MAX_SCREENSHOT_BYTES = 200_000
#: Set by ``make test-only WHAT=screenshots``: write the pictures rather than compare them.
IS_WRITING_SCREENSHOTS = bool(os.environ.get("PLACEMENT_SCHED_WRITE_SCREENSHOTS"))


@pytest.mark.parametrize("name", URLS_BY_SCREENSHOT)
def test_guide_screenshots_match_the_pages(open_page, tmp_path, name):
    page = open_page(URLS_BY_SCREENSHOT[name], size=SCREENSHOT_SIZE)
    page.wait_for_load_state("networkidle")
    drawn = tmp_path / name
    page.screenshot(path=drawn)
    kept = ROOT / "doc" / "source" / name
    if IS_WRITING_SCREENSHOTS:
        kept.write_bytes(drawn.read_bytes())
    assert kept.stat().st_size < MAX_SCREENSHOT_BYTES
    assert (
        read_image_size(kept)
        == read_image_size(drawn)
        == (SCREENSHOT_SIZE["width"], SCREENSHOT_SIZE["height"])
    )


def read_image_size(save_screenshot: Path) -> tuple[int, int]:
    """Return the width and height of a PNG file."""
    width, height = struct.unpack(">II", save_screenshot.read_bytes()[16:24])
    return width, height
