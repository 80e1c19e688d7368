"""Says what is wrong with a form in its own words: which field, and what is expected there.

The APIs name the offence as programs want it: its place as a JSON path, and the keyword of the
schema that says so. A person has typed into a field, which has a label.
"""

import re
from collections.abc import Callable, Mapping

from placement_sched.console.questions import LABELS

#: What an API says of a value that does not fit its schema.
_BY_SCHEMA = re.compile(
    r"(?:JSON does not validate|Invalid query string parameters): (?P<problem>.*)"
    r" \(at (?P<place>\$.*?)\)\. Failed validating '(?P<keyword>\w+)' in schema.*",
    re.DOTALL,
)
#: What it says of one that fits and is wrong all the same.
_BY_MEANING = re.compile(r"(?P<problem>.*) \(at (?P<place>\$?[\w.\[\]'-]+)\)", re.DOTALL)
#: What begins the others: the name of a key, or what was done with the text.
_OPENINGS = {"overrides: ": "Options: ", "policy: ": "Policy: ", "Malformed JSON: ": ""}
#: Labels of fields by the places of their values; the first that fits counts.
_LABELS = {
    r"request_spec\.flavor\.vcpus": LABELS["vcpus"],
    r"request_spec\.flavor\.memory_mb": LABELS["ram"],
    r"request_spec\.flavor\.root_gb": LABELS["disk"],
    r"request_spec\.flavor\.extra_specs.*": LABELS["extra_specs"],
    r"request_spec\.flavor.*|flavors?(\[\d+\])?": LABELS["flavor"],
    r"request_spec\.image\.properties.*": LABELS["image_properties"],
    r"request_spec\.image.*": LABELS["image"],
    r"request_spec\.num_instances": LABELS["count"],
    r"request_spec\.availability_zone": LABELS["zone"],
    r"request_spec\.project_id|project_id": LABELS["project"],
    r"request_spec\.scheduler_hints.*": LABELS["hints"],
    r"request_spec\.force_hosts.*": LABELS["force_hosts"],
    r"request_spec\.ignore_hosts.*": LABELS["ignore_hosts"],
    r"per": "Count per",
    r"moves": "Moves",
    r"request_id": "Request id",
    r"host": "Chosen host",
    r"refused": "Rejected host",
}
_TYPES = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "keys with values",
    "null": "nothing",
}
_FORMATS = {"uuid": "a UUID", "date-time": "a time"}
#: What texts are expected by patterns that values of forms can miss, as the API repeats them.
_PATTERNS: Mapping[str, str] = {
    r"^[^\\x00-\\x1f\\x7f]*$": "a text without control characters",
    r"^[A-Z0-9_]+$": "capital letters, digits and _",
    r"^[1-9][0-9]{0,8}$": "a whole number, 1 or more",
}
#: What is said by a schema's keyword: how the API has it, and what is expected by that. ``value``
#: is what was given.
_EXPECTED: Mapping[str, tuple[str, Callable[[str], str]]] = {
    "minimum": (r"(?P<value>.*) is less than the minimum of (?P<limit>.*)", "{} or more".format),
    "maximum": (r"(?P<value>.*) is greater than the maximum of (?P<limit>.*)", "{} or less".format),
    "exclusiveMinimum": (
        r"(?P<value>.*) is less than or equal to the minimum of (?P<limit>.*)",
        "more than {}".format,
    ),
    "maxLength": (r"(?P<value>.*) is too long; (?P<limit>at most .*)", str),
    "maxItems": (r"(?P<value>.*) is too long; (?P<limit>at most .*)", str),
    "type": (
        r"(?P<value>.*) is not of type (?P<limit>.*)",
        lambda names: _either([_TYPES[name] for name in re.findall(r"\w+", names)]),
    ),
    "enum": (
        r"(?P<value>.*) is not one of \[(?P<limit>.*)\]",
        lambda texts: _either([one for one in _listed(texts) if one != "null"]),
    ),
    "format": (
        r"(?P<value>.*) is not a '(?P<limit>.*)'",
        lambda name: _FORMATS.get(name, f"a {name}"),
    ),
    "pattern": (r"(?P<value>.*) does not match '(?P<limit>.*)'", lambda text: _PATTERNS[text]),
}


def in_form_words(detail: str) -> str:
    """Return what an API says is wrong, with the label of the field in place of its JSON path."""
    found = _BY_SCHEMA.fullmatch(detail)
    if found is not None:
        return _expectation(found["keyword"], _label(found["place"]), found["problem"])
    found = _BY_MEANING.fullmatch(detail)
    if found is not None:
        return f"{_label(found['place'])}: {found['problem']}"
    for opening, words in _OPENINGS.items():
        if detail.startswith(opening):
            return words + detail.removeprefix(opening)
    return detail


def _expectation(keyword: str, label: str, problem: str) -> str:
    """Return the label, the value, and what is expected in its place."""
    pattern, words = _EXPECTED.get(keyword, ("", str))
    found = re.fullmatch(pattern, problem, re.DOTALL) if pattern else None
    if found is not None:
        try:
            return f"{label} {_bare(found['value'])}: expected {words(found['limit'])}"
        except KeyError:  # a type or pattern that no form has until now
            return f"{label}: {problem}"
    missing = re.fullmatch(r"'(.*)' is a required property", problem)
    if missing is not None:
        return f"{label}: {missing[1]} is missing"
    unknown = re.fullmatch(
        r"Additional properties are not allowed \((.*) w\w+ unexpected\)(.*)", problem
    )
    if unknown is not None:
        return f"{label}: {unknown[1]} is not known here{unknown[2]}"
    if "should be non-empty" in problem or "is too short" in problem:
        return f"{label}: expected at least one"
    if "valid under" in problem:
        return f"{label}: what was given has none of the forms that are allowed there"
    return f"{label}: {problem}"


def _label(place: str) -> str:
    """Return the label of the field whose value has this JSON path; else the path in words."""
    path = place.removeprefix("$").removeprefix(".")
    change = re.fullmatch(r"changes\[(\d+)\](.*)", path)
    if change is not None:
        within = _words(re.sub(r"\[\d+\]", "", change[2]))
        return f"Changes, line {int(change[1]) + 1}{', ' * bool(within)}{within}"
    option = re.fullmatch(r"overrides(?:\['(.*)'\]|\.(.*))", path)
    if option is not None:
        return f"Options, {option[1] or option[2]}"
    for pattern, label in _LABELS.items():
        if re.fullmatch(pattern, path):
            return label
    words = _words(path)
    return words[:1].upper() + words[1:] if words else "The request"


def _words(path: str) -> str:
    return " ".join(re.findall(r"[a-zA-Z0-9-]+", path))


def _bare(value: str) -> str:
    quoted = len(value) > 1 and value[0] == value[-1] == "'"
    return value[1:-1] if quoted else value


def _listed(texts: str) -> list[str]:
    return [_bare(one) for one in texts.split(", ")]


def _either(names: list[str]) -> str:
    """Return names as a sentence has them: ``a, b or c``."""
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last
