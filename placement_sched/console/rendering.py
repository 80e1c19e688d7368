"""Makes HTML of templates: whatever a name holds, it stays text."""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from placement_sched.model.explanation_reader import in_words

#: So many of several names are shown in a sentence.
_FEW = 3


def rendered(template: str, values: Mapping[str, Any]) -> str:
    """Return the HTML of a template in ``templates``."""
    return _environment().get_template(template).render(values)


@cache
def stylesheet() -> str:
    """Return the styles that all pages and reports share."""
    return (files(__package__) / "static" / "console.css").read_text("utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = _number
    environment.filters["hosts"] = _hosts
    environment.filters["sizes"] = sizes
    environment.filters["first_few"] = _first_few
    environment.filters["words"] = in_words
    # What is drawn twice on a page gets ids of its own by this.
    environment.globals["prefix"] = ""
    # What leads from a host or a stage to more about it; a report leads nowhere.
    environment.globals["links"] = None
    return environment


def _number(value: float) -> str:
    """Return a number with commas between its thousands, a fraction with three digits."""
    if isinstance(value, float) and not value.is_integer():
        return f"{value:,.3f}"
    return f"{int(value):,}"


def sizes(flavor: Mapping[str, Any]) -> str:
    """Return the sizes of a flavor of the compute API: ``2 VCPUs, 4,096 MiB, 40 GiB``."""
    vcpus = flavor["vcpus"]
    return ", ".join(
        [
            f"{_number(vcpus)} {'VCPU' if vcpus == 1 else 'VCPUs'}",
            f"{_number(flavor['ram'])} MiB",
            f"{_number(flavor['disk'])} GiB",
        ]
    )


def _first_few(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - _FEW
    return ", ".join(names[:_FEW]) + (f" and {_number(more)} more" if more > 0 else "")


def _hosts(count: int) -> str:
    return "1 host" if count == 1 else f"{_number(count)} hosts"
