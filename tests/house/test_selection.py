"""Which tests belong to which run."""

from pathlib import Path

from tests.house.tree import PACKAGE
from tests.selection import PROCESSES, SHORT_FORMS, SLOW, SYSTEM, TESTS, _below

#: Packages whose tests need processes or a broker, or that only nova's plugins use.
NOT_FAST = {"cli", "config", "notifications"}


def test_what_is_left_out_is_there():
    assert [place for place in (*SYSTEM, *PROCESSES, *SLOW) if not is_there(place)] == []


def test_short_forms_are_there_and_of_system_tests():
    assert [one for one in SHORT_FORMS if not is_there(one)] == []
    assert [one for one in SHORT_FORMS if not _below(TESTS / one.partition("::")[0], SYSTEM)] == []


def is_there(place: str) -> bool:
    module, _, function = place.partition("[")[0].partition("::")
    if function:
        return f"\ndef {function}(" in (TESTS / module).read_text()
    return (TESTS / module).exists()


def test_every_package_has_fast_tests():
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    left_out = {TESTS / place for place in (*SYSTEM, *PROCESSES, *SLOW)}

    def is_fast(module: Path) -> bool:
        return left_out.isdisjoint({module, *module.parents})

    fast = {name for name in packages if any(map(is_fast, (TESTS / name).rglob("test_*.py")))}
    assert packages - fast == NOT_FAST
