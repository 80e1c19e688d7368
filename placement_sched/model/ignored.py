"""What a request says in a flavor or an image that nova logs and ignores, and so do we."""

from dataclasses import dataclass

FLAVOR, IMAGE = "flavor", "image"
#: How errors and logs name the part of a flavor or an image that has a key.
_PARTS = {FLAVOR: "flavor extra spec", IMAGE: "image property"}
#: No more characters of a value are shown: a caller may send any number of them.
_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Ignored:
    """An extra spec or an image property without effect, and what was expected in its place."""

    source: str
    key: str
    value: str
    expected: str

    @property
    def detail(self) -> str:
        """Return in one line what is ignored and why."""
        said = f"{_shown(self.key)}={_shown(self.value)}"
        return f"ignored: {_PARTS[self.source]} {said}: expected {self.expected}"

    @property
    def refusal(self) -> str:
        """Return why a request is refused for it, where nothing may be ignored."""
        said = f"{_PARTS[self.source]} {self.key!r}"
        return f"{said}: expected {self.expected}, got {_cut(repr(self.value))}"

    def as_json(self) -> dict[str, str]:
        """Return the entry of a funnel's ``warnings``."""
        return {"key": self.key, "source": self.source, "detail": self.detail}


def _shown(text: str) -> str:
    """Return a text as it is, where it can stand in one line of a log."""
    return _cut(text if text.isprintable() else repr(text))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
