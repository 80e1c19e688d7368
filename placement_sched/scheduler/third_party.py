"""Importing third-party code, and saying in one line what is wrong with it."""

import inspect
import linecache
import re
import traceback
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import TypeVar

from placement_sched.errors import one_line
from placement_sched.model.names import did_you_mean, nearest, suggested
from placement_sched.settings.conf import noting_options

Loaded = TypeVar("Loaded")

#: The modules of nova that plugins import, and what they import here instead.
_INSTEAD = {
    "nova.scheduler": "placement_sched.scheduler",
    "nova.conf": "placement_sched.config",
    "nova.api.validation.extra_specs": "placement_sched.scheduler.extra_specs",
}
_IMPORT = re.compile(
    r"\s*(?:from\s+(?P<package>nova[\w.]*)\s+import\s+\(?\s*(?P<first>\w*)|import\s+(?P<module>nova[\w.]*))"
)
#: Where the guide says the same.
_PAGE = '"Plugins written for nova" in doc/source/writing_plugins.rst'


def loaded(load: Callable[[], Loaded]) -> Loaded:
    """Return what third-party code returns; the options that it registers are noted.

    Raises whatever that code raises, and :class:`RuntimeError` where it would end the process.
    """
    try:
        with noting_options():
            return load()
    except SystemExit as leaving:
        raise RuntimeError(f"it ends the process with status {leaving.code}") from leaving


def why(failure: Exception) -> str:
    """Return what a failure to import says; for nova's modules also which lines to change."""
    reason = one_line(failure)
    if not isinstance(failure, ModuleNotFoundError) or not _is_novas(failure.name or ""):
        return reason
    # The import itself is the last that is not Python's own machinery.
    files = [frame.filename for frame in traceback.extract_tb(failure.__traceback__)]
    own = [file for file in files if not file.startswith("<")]
    return f"{reason}{_lines_to_change(own[-1] if own else None)}"


def why_no_base(kind: object) -> str:
    """Return why a class lacks one of our bases, where it has nova's instead; else nothing."""
    if not isinstance(kind, type) or not any(_is_novas(one.__module__) for one in kind.__mro__):
        return ""
    return f": its base is nova's{_lines_to_change(inspect.getsourcefile(kind))}"


def _lines_to_change(file: str | None) -> str:
    """Return the end of a sentence: how the imports of a file have to be changed."""
    changes: list[str] = []
    for number, line in enumerate(linecache.getlines(file) if file else (), 1):
        if found := _IMPORT.match(line):
            name = found["module"] or found["package"]
            if name == "nova" and found["first"]:
                name = f"nova.{found['first']}"
            old = next((old for old in _INSTEAD if f"{name}.".startswith(f"{old}.")), None)
            way = f"change {old} to {_INSTEAD[old]}" if old else f"{name} has no counterpart here"
            changes.append(f"{file}:{number}: {way}")
    return f"; {'; '.join(changes)} (see {_PAGE})" if changes else ""


def _is_novas(module: str) -> bool:
    return module.partition(".")[0] == "nova"


def classes_of(module: ModuleType, base: type) -> list[str]:
    """Return the names of the classes below ``base`` that a module has."""
    return [
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, base) and value is not base
    ]


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence with the known names of plugins that may be meant."""
    return suggested("plugin", name, known, alike=0.4)


def path_suggestion(path: str, known: Mapping[str, str], missing: Exception) -> str:
    """Return the like for a dotted path, given paths by the name of their class.

    A class that is misspelt, or named without its module, is meant rather than one whose path is
    alike. Nothing is, where ``missing`` is a module that the named one imports: the path is right.
    """
    if isinstance(missing, ModuleNotFoundError) and not f"{path}.".startswith(f"{missing.name}."):
        return ""
    near = [known[name] for name in nearest(path.rpartition(".")[2], known, alike=0.8)]
    return did_you_mean(near or nearest(path, known.values(), alike=0.4))
