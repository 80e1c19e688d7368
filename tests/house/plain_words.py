"""``python -m tests.house.plain_words``: words that make a text hard to read, and plain ones.

Part of ``make lint``. It reads everything that a user or a newcomer reads: messages, help,
docstrings, comments and names of the package, the guide, the API reference with its samples,
release notes, README, and the files that configure and build the project.
A text that has to have such a word, because a peer's message has it or because it is a documented
name, stands in :data:`QUOTED` with its reason.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACES = (
    "placement_sched",
    "doc",
    "api-ref",
    "releasenotes",
    "bench",
    "alembic",
    "examples",
    "deploy",
    "README.md",
    "CONTRIBUTING.md",
    "Makefile",
    "setup.cfg",
    "pyproject.toml",
    "ruff.toml",
    ".ci",
    ".github",
    ".pre-commit-config.yaml",
    "tox.ini",
)
#: Where names of files are read, beside those of the files that are read themselves.
NAMED = (*PLACES, "tests")
SUFFIXES = {
    *(".py", ".rst", ".md", ".yaml", ".svg", ".html", ".mako", ".json", ".css", ".toml", ".cfg"),
    *(".yml", ".ini"),
    # Makefile and .ci/run.
    "",
}

#: What stands, as a regular expression, and what to write.
PLAIN = {
    r"told|tells?|telling": "report, show, say, list, name, notify; given, reported, shown",
    r"(?:un)?heed(?:s|ed|ing)?": "use, honour, consider; 'unheeded' is 'ignored'",
    r"anew": "again",
    r"spoil(?:s|t)?": "invalid, broken",
    r"strangers?": "third-party, external",
    r"nobody|somebody": "no host, no client, another request: name the thing",
    r"who(?:so)?ever": "a client that, an operator who",
    r"dear(?:er|est)?": "expensive",
    r"by lot": "at random",
    r"hindrances?": "blocker",
    r"helpings?": "batch",
    r"sie(?:ve|ves)|sift(?:s|ed|ing)?": "filter, constraint",
    r"harvests?|groves?|basket": "name what is collected",
    r"roomy": "with room",
    r"loosening": "relaxed query",
    r"parted by": "separated by",
    r"rivals?": "a concurrent request, another writer",
    r"(?:for|only) who": "for clients that, only those that",
    r"(?-i:Who) (?:asks|wants|needs|may not)": "a client that, an operator who",
    r"(?<!there )is (?-i:none)(?! of)": "is invalid, is not a, means none",
    r"(?:is|are|was|were) not taken(?! (?:over|for))": "is not allowed, is rejected",
    r"takes? note": "record, read",
    r"(?<!there )(?:is|are|was|were|be) no(?! (?:longer|more|matter|fewer|less))": "is not a",
    r"behind(?! (?:(?:a|the|an|another|one|its|several) )?"
    r"(?:reverse |HTTP |HTTPS |TLS )?(?:prox|load|HAProxy|nginx|Apache|NAT|firewall))": "after",
}
_WORDS = "|".join(rf"(?P<w{number}>{word})" for number, word in enumerate(PLAIN))
#: Whole words, and whole parts of names.
_WORD = re.compile(rf"(?<![a-z])(?:{_WORDS})(?![a-z])", re.IGNORECASE)

#: Exact texts that keep such a word, and why.
QUOTED = {"open_to_nobody": "a code of 'aggregate check', which programs read"}


def found_in(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, word and the plain words for it; parts of a name count as words."""
    for number, line in enumerate(text.splitlines(), 1):
        for quoted in QUOTED:
            line = re.sub(quoted, "", line, flags=re.IGNORECASE)  # noqa: PLW2901 - the rest counts
        for match in _WORD.finditer(line):
            yield number, match[0], list(PLAIN.values())[int(str(match.lastgroup)[1:])]


def texts(places: Iterable[str] = PLACES) -> Iterator[Path]:
    """Yield the files that are read."""
    for place in places:
        path = ROOT / place
        every = sorted(path.rglob("*")) if path.is_dir() else [path]
        for one in every:
            if one.is_file() and one.suffix in SUFFIXES and not _is_built(one):
                yield one


def names() -> Iterator[Path]:
    """Yield the paths in the project of the files whose names are read."""
    for place in NAMED:
        path = ROOT / place
        for one in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if one.is_file() and not _is_built(one):
                yield one.relative_to(ROOT)


def _is_built(file: Path) -> bool:
    """Return whether a file is the product of a build, of a benchmark or of Python."""
    return bool({"build", "out", "__pycache__"} & set(file.relative_to(ROOT).parts))


def main() -> int:
    """Print each word with its place; return 1 where there is any."""
    count = 0
    for name in names():
        for _, word, plain in found_in(str(name).replace("-", " ")):
            print(f"{name}: {word!r} in the name: write {plain}")
            count += 1
    for path in texts():
        for number, word, plain in found_in(path.read_text(encoding="utf-8")):
            print(f"{path.relative_to(ROOT)}:{number}: {word!r}: write {plain}")
            count += 1
    if count:
        print(f"{count} words that CONTRIBUTING.md ('Plain English') asks to replace")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
