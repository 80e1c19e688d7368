# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.house.language [--lower | --list HABIT]``: a lint of the project's English.

It counts the docstrings, comments, messages, visible texts and paragraphs that have a habit which
makes a text hard to read, and the locals without a noun. It compares the counts of each package
with ``language_limits.txt``. A count may only fall: ``--lower`` writes lower limits, and it is an
error if the sum of the limits of a habit was lower before. ``--list`` prints the place of each hit
of a habit. ``make lint`` runs it.
"""

import ast
import html
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

ROOT = Path(__file__).resolve().parents[2]
LIMITS_FILE = Path(__file__).with_name("language_limits.txt")
CODE_FOLDERS = (
    *("placement_sched", "tests", "bench", "alembic", "examples", "deploy", "releasenotes"),
)
PROSE_PATHS = (
    *("README.md", "CONTRIBUTING.md", "MAINTAINING.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md"),
    *("SECURITY.md", "doc", "api-ref", "bench", "deploy", "devstack", "examples", "releasenotes"),
    *("Makefile", ".ci", "placement_sched/cli/report", "placement_sched/extensions/console"),
    *("ruff.toml", "setup.cfg", "tox.ini", "pyproject.toml", ".pre-commit-config.yaml", ".github"),
)
PROSE_SUFFIXES = {".rst", ".md", ".inc"}
DATA_SUFFIXES = {".yaml", ".yml", ".json"}
#: Generated or licensed text, and pictures.
SKIPPED_SUFFIXES = {".py", ".pyc", ".po", ".svg", ".png", ".db", ".xml", ".typed"}
#: The longest summary line of a docstring, in characters.
MAX_SUMMARY_CHARACTERS = 88
#: The longest summary line of a new docstring.
MAX_NEW_SUMMARY_CHARACTERS = 72
#: The most places of a habit that one run prints.
MAX_PRINTED_SENTENCES = 20

#: Each habit is a regular expression. The comment names the replacement.
STYLE_VIOLATION_PATTERNS = {
    "where": r"\bwhere\b",  # if, when
    "one": r"\bones?\b",  # the noun
    "what": r"\bwhat\b",  # the noun
    "those": r"\b(those|these)\b(?! [a-z]+s\b)",  # the noun
    # Code reads, compares, returns, rejects.
    "asks": r"\b(asks?|asked|looks? at|says?|said|tells?|told|knows?|known|wants?|goes by"
    r"|takes? .{1,20} for)\b",
    "which": r"\b(of|by|in|for|with|from|under|to|on|at) (which|whom|whose)\b",  # two sentences
    "semicolon": r"; ",  # two sentences
    "so many": r"\bso (many|much|few|long)\b",  # the number
    # also, alongside, fix
    "odd word": r"\b(as well|likewise|beside|meanwhile|mend(s|ed|ing)?|anew|whoever|heed(s|ed)?)\b",
}
_COMPILED_VIOLATION_PATTERNS = {
    habit: re.compile(pattern) for habit, pattern in STYLE_VIOLATION_PATTERNS.items()
}
QUESTION_PATTERN = re.compile(r"(What|How|Which|Where|Who|Whose|Whether|So) ")
#: A string with three words is a message. A shorter string may be a key, a path or a part of SQL.
MESSAGE_PATTERN = re.compile(r"[a-z]+ [a-z]+ [a-z]+")
COMMENT_PATTERN = re.compile(r"(?:^|  )\s*#:? (.*)")
_VAGUE_WORDS = (
    "one ones some found asked known given held before left rest others other most few many them "
    "those these what such said shown kept meant taken seen"
)
#: Names of locals that are not nouns.
VAGUE_LOCALS = frozenset(_VAGUE_WORDS.split())
JINJA_PATTERN = re.compile(r"\{%.*?%\}|\{\{.*?\}\}", re.DOTALL)
JINJA_LOCAL_PATTERN = re.compile(
    r"\{%-? (?:for|set|with) (\w+)(?:, (\w+))?|\{%-? (?:call|macro \w+)\((\w+)"
)
#: A comment, the text of an element, or an attribute that a user reads.
HTML_TEXT_PATTERN = re.compile(
    r"(?s:\{#(.*?)#\})|(?<=>)([^<>]+)(?=<)"
    r'|\b(?:title|placeholder|aria-label|alt|data-loading|data-empty)="([^"]*)"'
)
SCRIPT_COMMENT_PATTERN = re.compile(r"^\s*(?://|/?\*+(?! \{))/? ?(.*?)(?:\*/)?$|; // (.*)$")
SCRIPT_STRING_PATTERN = re.compile(r"([\"'`])((?:(?!\1).)*)\1")
SCRIPT_LOCAL_PATTERN = re.compile(r"\b(?:const|let|var) (\w+)\b|\(?\b(\w+)\)? =>")
SQL_PATTERN = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER) ")


class CheckedText(NamedTuple):
    """A text or the name of a local. ``place`` is its file and line."""

    package: str
    place: str
    kind: str
    text: str


def list_texts() -> Iterator[CheckedText]:
    """Yield every text that is checked."""
    for folder in CODE_FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield from _read_module_texts(path)
    for name in PROSE_PATHS:
        path = ROOT / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            is_page = file.is_file() and not {"build", "__pycache__"} & {*file.parts}
            if is_page and file.suffix not in SKIPPED_SUFFIXES:
                yield from read_page_texts(file)


def _read_module_texts(path: Path) -> Iterator[CheckedText]:
    shown = path.relative_to(ROOT)
    package = _package_of(path)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                line = node.body[0]
                docstrings.add(id(line.value))
                kind = "module" if isinstance(node, ast.Module) else "docstring"
                yield CheckedText(package, f"{shown}:{line.lineno}", kind, text)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield CheckedText(package, f"{shown}:{node.lineno}", "local", node.id)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            is_message = MESSAGE_PATTERN.search(node.value) and not SQL_PATTERN.search(node.value)
            if is_message and id(node) not in docstrings and shown.parts[0] == "placement_sched":
                yield CheckedText(package, f"{shown}:{node.lineno}", "message", node.value)
    yield from _read_comments(path, COMMENT_PATTERN)


def _package_of(path: Path) -> str:
    parts = path.relative_to(ROOT).parts
    return "/".join(parts[:2]) if parts[0] == "placement_sched" else parts[0]


def _read_comments(path: Path, pattern: re.Pattern[str]) -> Iterator[CheckedText]:
    """Yield the comments of a file. Adjacent lines form a single comment."""
    begin, words = 0, ""
    for number, line in enumerate([*path.read_text(encoding="utf-8").splitlines(), ""], 1):
        match = pattern.search(line)
        if match:
            begin, words = begin or number, f"{words} {match[match.lastindex or 1]}"
        elif words:
            place = f"{path.relative_to(ROOT)}:{begin}"
            yield CheckedText(_package_of(path), place, "comment", words)
            begin, words = 0, ""


def read_page_texts(path: Path) -> Iterator[CheckedText]:
    """Yield the paragraphs of a page, or the comments and visible texts of another file."""
    is_guide = path.relative_to(ROOT).parts[0] in ("doc", "api-ref")
    if path.suffix in PROSE_SUFFIXES or (is_guide and path.suffix == ".yaml"):
        yield from _read_paragraphs(path)
    elif path.suffix == ".html":
        yield from _read_template(path)
    elif path.suffix in (".js", ".css"):
        yield from _read_comments(path, SCRIPT_COMMENT_PATTERN)
        yield from _read_script(path)
    elif not is_guide:
        if path.suffix != ".json":
            yield from _read_comments(path, COMMENT_PATTERN)
        if path.suffix in DATA_SUFFIXES:
            yield from _read_values(path)


def _read_paragraphs(path: Path) -> Iterator[CheckedText]:
    line = 1
    for paragraph in path.read_text(encoding="utf-8").split("\n\n"):
        is_code = paragraph.startswith(("    ", "\n    ", "   $"))
        if not is_code:
            place = f"{path.relative_to(ROOT)}:{line}"
            yield CheckedText(_package_of(path), place, "paragraph", paragraph)
        line += paragraph.count("\n") + 2


def _read_template(path: Path) -> Iterator[CheckedText]:
    """Yield comments, visible texts and locals of a template. An expression is a word, X."""
    source = path.read_text(encoding="utf-8")
    shown, package = path.relative_to(ROOT), _package_of(path)
    for match in JINJA_LOCAL_PATTERN.finditer(source):
        place = f"{shown}:{source.count(chr(10), 0, match.start()) + 1}"
        for name in filter(None, match.groups()):
            yield CheckedText(package, place, "local", name)
    # Tags and expressions keep their line breaks, so that the lines are counted right.
    text = JINJA_PATTERN.sub(
        lambda match: "X" * match[0].startswith("{{") + "\n" * match[0].count("\n"), source
    )
    for match in HTML_TEXT_PATTERN.finditer(text):
        place = f"{shown}:{text.count(chr(10), 0, match.start()) + 1}"
        visible = html.unescape(match[match.lastindex])
        yield CheckedText(package, place, "message", visible)


def _read_script(path: Path) -> Iterator[CheckedText]:
    """Yield messages and locals of a JavaScript module."""
    shown, package = path.relative_to(ROOT), _package_of(path)
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.lstrip().startswith(("//", "*", "/*")):
            continue
        for match in SCRIPT_LOCAL_PATTERN.finditer(line):
            yield CheckedText(package, f"{shown}:{number}", "local", match[1] or match[2])
        for match in SCRIPT_STRING_PATTERN.finditer(line):
            if MESSAGE_PATTERN.search(match[2]):
                yield CheckedText(package, f"{shown}:{number}", "message", match[2])


def _read_values(path: Path) -> Iterator[CheckedText]:
    """Yield the sentences in YAML or JSON, such as descriptions of alerts and dashboards."""
    values = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    while values:
        value = values.pop()
        if isinstance(value, dict):
            values.extend(value.values())
        elif isinstance(value, list):
            values.extend(value)
        elif isinstance(value, str) and MESSAGE_PATTERN.search(value):
            yield CheckedText(_package_of(path), str(path.relative_to(ROOT)), "message", value)


def find_style_violations(text: CheckedText) -> Iterator[str]:
    """Yield the name of each habit that a text or the name of a local has."""
    if text.kind == "local":
        if text.text in VAGUE_LOCALS:
            yield "vague local"
        return
    flat = " ".join(text.text.split())
    for habit, pattern in _COMPILED_VIOLATION_PATTERNS.items():
        if pattern.search(flat):
            yield habit
    if text.kind in ("docstring", "module"):
        summary = text.text.split("\n", 1)[0].rstrip()
        if len(summary) > MAX_SUMMARY_CHARACTERS or not summary.endswith("."):
            yield "long summary"
        elif len(summary) > MAX_NEW_SUMMARY_CHARACTERS:
            yield "wide summary"
    if text.kind == "module" and QUESTION_PATTERN.match(flat):
        yield "module question"


def read_limits_of_style_violations(text: str) -> dict[tuple[str, str], int]:
    """Parse a limits file: the highest count of each package and habit."""
    rows = (line.rsplit(None, 1) for line in text.splitlines())
    return {tuple(key.split(" ", 1)): int(count) for key, count in rows}


def read_lowest_totals(file: Path = LIMITS_FILE) -> dict[str, int]:
    """Return the lowest sum of limits of each habit in git's history.

    Returns nothing without git, and in a clone without history.
    """
    lowest: dict[str, int] = {}
    for commit in _run_git(file.parent, "log", "--format=%h", "--", file.name).split():
        text = _run_git(file.parent, "show", f"{commit}:./{file.name}")
        for habit, total in count_totals(read_limits_of_style_violations(text)).items():
            lowest[habit] = min(total, lowest.get(habit, total))
    return lowest


def _run_git(folder: Path, *arguments: str) -> str:
    try:
        run = subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=60
        )
    except OSError:
        return ""
    return run.stdout


def count_totals(limits: dict[tuple[str, str], int]) -> Counter[str]:
    """Return the sum of the limits of each habit, which moves of files keep."""
    totals = Counter()
    for (_, habit), count in limits.items():
        totals[habit] += count
    return totals


def compare_counts(
    counts: dict[tuple[str, str], int], highest: dict[tuple[str, str], int]
) -> list[str]:
    """Return a sentence for each count that differs from its limit."""
    sentences = []
    for key in sorted({*counts, *highest}):
        count, limit = counts.get(key, 0), highest.get(key, 0)
        package, habit = key
        if count > limit:
            sentences.append(f"{package}: {count} texts with {habit!r}, {limit} are allowed")
        elif count < limit:
            sentences.append(f"{package}: {count} texts with {habit!r}: lower the limit ({limit})")
    return sentences


def main(arguments: list[str]) -> int:
    """Compare, lower the limits or list places; return 1 if a count differs from its limit."""
    hits = [(text, habit) for text in list_texts() for habit in find_style_violations(text)]
    if arguments[:1] == ["--list"]:
        for text, habit in hits:
            if habit == arguments[1]:
                print(f"{text.place}: {text.kind}: {' '.join(text.text.split())[:160]}")
        return 0
    counts = Counter((text.package, habit) for text, habit in hits)
    if arguments[:1] == ["--lower"]:
        old = read_limits_of_style_violations(LIMITS_FILE.read_text())
        rows = {key: min(count, old.get(key, 0)) for key, count in counts.items()}
        lines = (f"{' '.join(key)} {count}\n" for key, count in sorted(rows.items()) if count)
        LIMITS_FILE.write_text("".join(lines))
        return 0
    limits = read_limits_of_style_violations(LIMITS_FILE.read_text())
    sentences = compare_counts(counts, limits)
    lowest = read_lowest_totals()
    sentences += [
        f"the limits of {habit!r} were raised: their sum is {total}, and was {lowest[habit]}"
        for habit, total in count_totals(limits).items()
        if total > lowest.get(habit, total)
    ]
    if not lowest:
        print("git shows no earlier limits: raised limits are not detected")
    print(*sentences[:MAX_PRINTED_SENTENCES], sep="\n", end="\n" if sentences else "")
    if sentences:
        print("python -m tests.house.language --list HABIT prints the places (see CONTRIBUTING.md)")
    return bool(sentences)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
