# SPDX-License-Identifier: Apache-2.0
"""CHANGELOG.md, written from the release notes at a release.

Run ``.venv/bin/python releasenotes/changelog.py`` in the root of the repository after the notes are
committed: reno takes the version of a note from the tags of git. Notes without a tag belong to the
``version`` of ``setup.cfg``.
"""

import configparser
import textwrap
from pathlib import Path
from typing import Any

from reno.config import Config
from reno.loader import Loader

ROOT = Path(__file__).resolve().parents[1]
_WIDTH = 120
_HEADER = """\
# Changelog

Changes that users notice, newest release first. Written from `releasenotes/notes` by
`releasenotes/changelog.py`. `MAINTAINING.md` describes releases.
"""


def build_changelog(root: Path) -> str:
    """Return the text of CHANGELOG.md for the committed notes of ``root``."""
    setup = configparser.ConfigParser()
    setup.read(root / "setup.cfg")
    config = Config(str(root))
    notes: dict[str, list[dict[str, Any]]] = {}
    with Loader(config, ignore_cache=True) as loader:
        for version in loader.versions:
            is_tagged = loader.get_version_date(version) != "Unknown"
            name = version if is_tagged else setup["metadata"]["version"]
            notes.setdefault(name, []).extend(
                loader.parse_note_file(file, commit) for file, commit in loader[version]
            )
    sections = [(section.name, section.title) for section in config.sections]
    chapters = [_format_version(name, notes[name], sections) for name in notes]
    return "\n".join([_HEADER, *chapters])


def _format_version(
    version: str, notes: list[dict[str, Any]], sections: list[tuple[str, str]]
) -> str:
    preludes = [note["prelude"] for note in notes if "prelude" in note]
    blocks = [
        f"## {version}",
        *(textwrap.fill(prelude, _WIDTH, break_on_hyphens=False) for prelude in preludes),
    ]
    for name, title in sections:
        entries = [entry.strip() for note in notes for entry in note.get(name, ())]
        if entries:
            lines = "".join(f"- {textwrap.indent(entry, '  ')[2:]}\n" for entry in entries)
            blocks += [f"### {title}", lines.rstrip()]
    return "\n\n".join(blocks).replace("``", "`") + "\n"


if __name__ == "__main__":
    (ROOT / "CHANGELOG.md").write_text(build_changelog(ROOT))
