"""Says what is wrong with a form in its own words: which field, and what is expected there.

The APIs name the offence as programs want it: its place as a JSON path, and the keyword of the
schema that says so. A person has typed into a field, which has a label.
"""

import re

from placement_sched.console.questions import LABELS
from placement_sched.model.document import Json
from placement_sched.schemas.wording import bare, expectation, plain_reason

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


def in_form_words(error: Json) -> str:
    """Return an API's error, with the label of the field in place of its JSON path."""
    detail = str(error.get("detail") or error.get("message") or "")
    if fault := error.get("fault"):
        label, wrong = _label(fault["path"]), expectation(fault)
        if wrong is not None:
            return f"{label} {bare(wrong.value)}: expected {wrong.expected}"
        return f"{label}: {plain_reason(fault)}"
    for opening, words in _OPENINGS.items():
        if detail.startswith(opening):
            return words + detail.removeprefix(opening)
    return detail


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
