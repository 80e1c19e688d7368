# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.house.spdx [--write]``: the license line of each source file.

Without an option it prints the files whose first line, or first line after ``#!``, is not the
license line, and the exit status is 1 if there are any. ``--write`` adds the line to them.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.house.language import CODE_FOLDERS

ROOT = Path(__file__).resolve().parents[2]
LICENSE_TEXT = "SPDX-License-Identifier: Apache-2.0"
CHECKED_FOLDERS = (*CODE_FOLDERS, "doc", "api-ref")
CHECKED_FILES = ("setup.py", ".ci/run")
#: The form of a comment, by the suffix of a file. Mako templates are written into Python files.
COMMENT_FORMATS = {
    **dict.fromkeys((".py", ".sh", ".mako", ""), "# {}"),
    ".js": "// {}",
    ".css": "/* {} */",
}
#: Third-party code and build results.
_IGNORED_FOLDERS = {"build", "__pycache__"}


def list_source_files(root: Path) -> Iterator[Path]:
    """Yield the files that need the line, sorted by folder."""
    for folder in CHECKED_FOLDERS:
        for path in sorted((root / folder).rglob("*.*")):
            if path.suffix in COMMENT_FORMATS and not _IGNORED_FOLDERS & set(path.parts):
                yield path
    yield from (root / name for name in CHECKED_FILES if (root / name).is_file())


def has_license_line(path: Path) -> bool:
    """Return whether a file has the line in its place."""
    _shebang, lines = _split_shebang_from_lines(path)
    return bool(lines) and lines[0].rstrip("\n") == _build_license_line(path)


def add_license_line(path: Path) -> None:
    """Write the line into a file."""
    shebang, lines = _split_shebang_from_lines(path)
    path.write_text("".join([*shebang, f"{_build_license_line(path)}\n", *lines]), encoding="utf-8")


def _build_license_line(path: Path) -> str:
    return COMMENT_FORMATS[path.suffix].format(LICENSE_TEXT)


def _split_shebang_from_lines(path: Path) -> tuple[list[str], list[str]]:
    """Return the line that names the interpreter, if any, and the other lines."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    count = 1 if lines and lines[0].startswith("#!") else 0
    return lines[:count], lines[count:]


def main(argv: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Check or write the line of each file, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="add the line to files without it")
    write = parser.parse_args(argv).write
    missing = [path for path in list_source_files(root) if not has_license_line(path)]
    for path in missing:
        if write:
            add_license_line(path)
        else:
            print(f"{path.relative_to(root)}: the license line is missing: run make format")
    return 1 if missing and not write else 0


if __name__ == "__main__":
    sys.exit(main())
