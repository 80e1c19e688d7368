"""Answers about a request, in the words of the command line that it was made of.

The scheduler names the place of what is wrong by a JSON path. A person who gave options is answered
with the name of the option.
"""

import argparse
import re
from collections.abc import Iterator
from contextlib import contextmanager

from placement_sched.errors import Error

#: The option that each part of a request comes from; of several paths that fit the longest counts.
OPTIONS = {
    "$.request_spec.num_instances": "--count",
    "$.request_spec.instance_uuids": "--count",
    "$.request_spec.flavor": "--flavor",
    "$.request_spec.flavor.vcpus": "--vcpus",
    "$.request_spec.flavor.memory_mb": "--ram",
    "$.request_spec.flavor.root_gb": "--disk",
    "$.request_spec.flavor.extra_specs": "--property",
    "$.request_spec.image": "--image",
    "$.request_spec.image.properties": "--image-property",
    "$.request_spec.availability_zone": "--zone",
    "$.request_spec.project_id": "--project",
    "$.request_spec.scheduler_hints": "--hint",
    "$.hosts": "--host",
    "$.overrides": "--override",
    "$.policy": "--policy",
}
#: How sentences begin that name no path, what they begin with here, and what of them is left out.
_BEGINNINGS = (
    ("overrides: there is no option", "--override: there is no option", ""),
    ("overrides: ", "--override ", ""),
    ("policy: ", "{policy}: ", ""),
    ("flavor extra spec ", "{extra_spec}flavor extra spec ", ""),
    ("image property ", "{image_property}image property ", ""),
    (
        "There is no stored flavor",
        "--flavor: there is no stored flavor",
        "; give the flavor as an object",
    ),
    (
        "There is no stored image",
        "--image: there is no stored image",
        "; give the image as an object",
    ),
)
_INVALID = "JSON does not validate: "
#: Where something is wrong, and what a schema says besides.
_PLACE = re.compile(
    r" \(at (?P<path>\$(?:[^()\s]|\([^()]*\))*)\)(?:\. Failed validating '\w+' in schema\S*)?"
)
_STEP = re.compile(r"\['(?P<quoted>[^']*)'\]|\[\d+\]|\.(?P<plain>[^.\[]+)")


@contextmanager
def in_words_of_options(arguments: argparse.Namespace) -> Iterator[None]:
    """Let what is raised about a request name the options that it was made of."""
    try:
        yield
    except Error as failure:
        failure.detail = worded(failure.detail, arguments)
        failure.args = (failure.detail,)
        raise


def worded(detail: str, arguments: argparse.Namespace) -> str:
    """Return what is wrong with a request, with options in place of JSON paths.

    A path into a file that was given stays as it is.
    """
    of_file = arguments.request is not None
    for beginning, words, left_out in _BEGINNINGS:
        if detail.startswith(beginning) and not (of_file and left_out):
            rest = detail.removeprefix(beginning).replace(left_out, "", 1)
            told = rest if of_file else _PLACE.sub("", rest, count=1)
            return words.format(**_given(arguments)) + told
    found = _PLACE.search(detail)
    option = _option_of(found["path"], of_file=of_file) if found else None
    if found is None or option is None:
        return detail
    rest = detail[: found.start()] + detail[found.end() :]
    return f"{option}: {rest.removeprefix(_INVALID)}"


def _given(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the options that what is wrong came from, where several could have given it.

    A stored flavor or image has extra specs or properties that no option gave.
    """
    compared = getattr(arguments, "compare", None) is not None  # ``select`` does not have it
    return {
        "policy": "--compare" if compared else "--policy",
        "extra_spec": "--property: " if arguments.property else "",
        "image_property": "--image-property: " if arguments.image_property else "",
    }


def _option_of(path: str, *, of_file: bool) -> str | None:
    """Return the option that a path comes from, with the key that was given to it."""
    fitting = [one for one in OPTIONS if path == one or path.startswith((f"{one}.", f"{one}["))]
    if not fitting or (of_file and path.startswith("$.request_spec")):
        return None
    longest = max(fitting, key=len)
    steps = _STEP.finditer(path.removeprefix(longest))
    keys = [step["quoted"] or step["plain"] for step in steps]
    return " ".join([OPTIONS[longest], *filter(None, keys)])
