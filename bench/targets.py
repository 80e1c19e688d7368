"""What is promised of each figure, and whether it was kept."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """A floor and an aim for a figure; ``unit`` follows it where it is shown."""

    at_least: float
    aim: float
    unit: str = "x"
    #: Small figures are the good ones: a time, a growth, a size.
    at_most: bool = False

    def verdict(self, figure: float) -> str:
        """Return in a word whether the figure keeps it."""
        for bound, word in ((self.aim, "aim"), (self.at_least, "kept")):
            if figure <= bound if self.at_most else figure >= bound:
                return word
        return "MISSED"

    def show(self, figure: float) -> str:
        """Return a figure with its unit, as precise as it has to be."""
        digits = 0 if figure >= 100 else 1 if figure >= 10 else 2
        return f"{figure:.{digits}f}{self.unit}"

    def shown(self, bound: float) -> str:
        """Return a bound as the table shows it."""
        return f"{'≤ ' if self.at_most else ''}{bound:g}{self.unit}"


def at_most(bound: float, aim: float | None = None, unit: str = "x") -> Target:
    """Return a target for a figure that shall be small."""
    return Target(bound, bound if aim is None else aim, unit, at_most=True)


@dataclass(frozen=True, slots=True)
class Finding:
    """One figure that was measured, and what was promised of it, if anything."""

    name: str
    figure: float
    target: Target
    #: What else says how it came about: the ratios of bests, of CPU time.
    note: str = ""
    #: Whether it was measured on a world of the size that the target means.
    applies: bool = True

    @property
    def verdict(self) -> str:
        """Return in a word or two whether the target was kept."""
        return self.target.verdict(self.figure) if self.applies else "other size"
