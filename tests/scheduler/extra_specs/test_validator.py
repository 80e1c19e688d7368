# SPDX-License-Identifier: Apache-2.0
"""Extra specs of a flavor: those of nova, of the operator and of installed packages."""

import sys

import pytest

from placement_sched.errors import ConfigurationError, Invalid
from placement_sched.scheduler.extra_specs import ExtraSpecValidator, all_validators, check
from placement_sched.scheduler.extra_specs import validator as validators


@pytest.mark.parametrize(
    "key", ["mine", "acme:x", "hw", "HW:x", "trait", "resource:VCPU", "in_tree:x"]
)
def test_everything_else_is_the_operators_own(key):
    check(key, "whatever")


def test_everything_known_is_described():
    names = [each.name for each in all_validators()]
    assert sorted(set(names)) == names
    assert all(each.description.endswith(".") for each in all_validators())


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Give a function that installs a package whose module ``acme_specs`` is this text."""

    def forget():
        validators.all_validators.cache_clear()
        validators._index.cache_clear()
        sys.modules.pop("acme_specs", None)

    def install(text, entry="acme_specs"):
        (tmp_path / "acme_specs.py").write_text(text)
        info = tmp_path / "acme-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{validators.GROUP}]\nacme = {entry}\n")
        monkeypatch.syspath_prepend(tmp_path)
        forget()

    yield install
    forget()


ACME = """
from placement_sched.scheduler import extra_specs


def register():
    return [
        extra_specs.ExtraSpecValidator(
            name="acme:racks",
            description="How many racks.",
            value={"type": int, "min": 1, "description": "A number."},
        ),
        extra_specs.ExtraSpecValidator("acme:rack.{row}", "A rack.", {"type": str}, [
            {"name": "row", "pattern": "[a-z]", "description": "The row."},
        ]),
    ]
"""


def test_installed_package_makes_its_namespace_known(installed):
    installed(ACME)
    check("acme:racks", "1")
    check("acme:rack.b", "x")
    check("hw:cpu_policy", "shared")
    for key, value in (("acme:racks", "0"), ("acme:rack.B", "x"), ("acme:other", "x")):
        with pytest.raises(Invalid, match="Validation failed"):
            check(key, value)


@pytest.mark.parametrize(
    ("text", "entry", "words"),
    [
        ("", "no_such_module", "cannot be loaded"),
        ("", "acme_specs", "cannot be loaded"),
        ("def register():\n    return 1 / 0\n", "acme_specs", "division by zero"),
        ("def register():\n    return ['x']\n", "acme_specs", "'x' is not an ExtraSpecValidator"),
    ],
)
def test_package_that_is_wrong_is_named(installed, text, entry, words):
    installed(text, entry)
    where = r"entry point acme \(.*\) of placement_sched\.extra_spec_validators"
    with pytest.raises(ConfigurationError, match=f"{where}.*{words}"):
        all_validators()


def test_server_does_not_start_with_a_package_that_is_wrong(installed, sqlite_settings, make_app):
    installed("")
    with pytest.raises(ConfigurationError, match="entry point acme"):
        make_app(sqlite_settings)


def validator(name="acme:x", parameters=None, **value):
    return ExtraSpecValidator(name, "What it is.", value, parameters)


@pytest.mark.parametrize("value", ["true", "False", "YES", " on ", "t", "0", "n"])
def test_booleans(value):
    validator(type=bool).check(value)


@pytest.mark.parametrize(
    ("one", "value", "words"),
    [
        (validator(type=bool), "", "'' is not a valid boolean-like value."),
        (validator(type=bool), "maybe", "'maybe' is not a valid boolean-like value."),
        (validator(type=int), "x", "'x' is not a valid integer value."),
        (validator(type=int), "1.0", "'1.0' is not a valid integer value."),
        (validator(type=int, min=1), "0", "'0' is less than the min value of '1'."),
        (validator(type=int, max=1), "2", "'2' is greater than the max value of '1'."),
        (validator(type=str, enum=["a", "b"]), "A", "'A' is not one of: a, b."),
        (validator(type=str, pattern="[0-9]+"), "1,", "'1,' is not of the format '[0-9]+'."),
    ],
)
def test_refusals(one, value, words):
    with pytest.raises(Invalid) as refused:
        one.check(value)
    assert refused.value.detail == f"Validation failed; {words}"


@pytest.mark.parametrize(
    ("one", "value"),
    [
        (validator(type=int), "-5"),
        (validator(type=int, min=0, max=0), "0"),
        (validator(type=str), "anything\nat all"),
        (validator(type=str, enum=("a",)), "a"),
        (validator(type=str, pattern="[0-9]+"), "12"),
    ],
)
def test_what_is_taken(one, value):
    one.check(value)


def test_name_and_namespace_match_whole_keys_with_their_parameters():
    one = validator(
        "acme{group}:x.{num}",
        [
            {"name": "group", "pattern": "[a-z]*", "description": "A group."},
            {"name": "num", "pattern": r"\d+|any", "description": "A number."},
        ],
        type=str,
    )
    matching = ("acme:x.1", "acmeb:x.any")
    assert all(one.name_pattern.fullmatch(key) for key in matching)
    assert not any(map(one.name_pattern.fullmatch, ("acme:x.", "acme:xx1", "acmeB:x.1")))
    assert one.namespace_pattern.fullmatch("acmeb")
    assert validator("plain", type=str).namespace_pattern is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"value": {}}, "the type of the value"),
        ({"value": {"type": list}}, "the type of the value"),
        ({"value": {"type": "str"}}, "the type of the value"),
        ({"value": {"type": str, "min": 1}}, "str has no min"),
        ({"value": {"type": int, "pattern": "x"}}, "int has no pattern"),
        ({"value": {"type": str, "pattern": "("}}, "acme:x"),
        ({"name": "acme:{y}"}, "acme:{y}: 'y'"),
        ({"name": "acme:{y}", "parameters": [{"name": "y"}]}, "'pattern'"),
        ({"name": "acme:{y}", "parameters": [{"name": "y", "pattern": "("}]}, "acme:{y}"),
    ],
)
def test_what_could_never_be_checked_is_refused_when_it_is_made(changes, words):
    given = {"name": "acme:x", "description": "What.", "value": {"type": str}, **changes}
    with pytest.raises(ValueError, match=words.replace("{", r"\{")):
        ExtraSpecValidator(**given)
