"""Makes one value of a request one that cannot be, or that contradicts another."""

from tests.differential.generate.dice import Dice
from tests.differential.nova.generate.draft import Draft

_ODD = ("", "x", "-1", "0", "1.5", "yes", "REQUIRED", " required", "forbidden", "a:b", "1,2")


def spoil(dice: Dice, draft: Draft) -> None:
    """Change the value of an extra spec or of a property."""
    said = dice.one([one for one in (draft.extra_specs, draft.properties) if one] or [{}])
    if said:
        said[dice.one(sorted(said))] = dice.one(_ODD)
