"""Finding the plugins of a folder: one plugin or family per file, no registry to keep."""

import importlib
import pkgutil
from types import ModuleType
from typing import TypeVar

Kind = TypeVar("Kind")


def classes_in(package: ModuleType, base: type[Kind]) -> list[type[Kind]]:
    """Return the public subclasses of ``base`` that the package's modules define, by name."""
    found: list[type[Kind]] = []
    for module_info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        module = importlib.import_module(module_info.name)
        # What a module only imports is another one's plugin.
        found += [value for value in vars(module).values() if _is_own(module, value, base)]
    return sorted(found, key=lambda kind: kind.__name__)


def _is_own(module: ModuleType, value: object, base: type) -> bool:
    return (
        isinstance(value, type)
        and issubclass(value, base)
        and value.__module__ == module.__name__
        and not value.__name__.startswith("_")
    )
