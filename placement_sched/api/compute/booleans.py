"""Yes and no, in nova's words."""

_YES = frozenset(("1", "t", "true", "on", "y", "yes"))
_NO = frozenset(("0", "f", "false", "off", "n", "no"))


def yes_or_no(text: str) -> bool | None:
    """Return whether ``text`` says yes or no, in whichever case; None where it says neither."""
    word = text.strip().lower()
    return word in _YES if word in _YES | _NO else None
