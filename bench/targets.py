# SPDX-License-Identifier: Apache-2.0
"""What is promised of each figure, and whether it was kept."""

from collections.abc import Mapping
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


#: The databases on which targets hold, the same on each. On others figures are shown alone.
DATABASES = ("postgresql", "mariadb")

# How many times our time the peer takes, by the question of the world.
FLAT: Mapping[str, Target] = {
    "limit=1000": Target(150, 250),
    "limit=10": Target(500, 1000),
    "2 required, 1 forbidden trait": Target(100, 200),
    "2 required, one rare, 1 forbidden": Target(100, 200),
    "in: two and !in: three aggregates": Target(50, 100),
    "!in: 19 aggregates": Target(40, 100),
    "one rack": Target(5, 15),
    "tight": Target(25, 50),
    "no match: amount": Target(25, 50),
    "no match: trait": Target(50, 100),
    "no match: two aggregates": Target(3, 6),
    "no match: unknown aggregate": Target(5, 15),
    "one forced host": Target(50, 100),
    "one forced host, enabled": Target(50, 100),
    "one forced host, traits": Target(50, 100),
    "no limit": Target(15, 25),
}
#: At 50 000 hosts.
LARGE: Mapping[str, Target] = {"limit=1000": Target(250, 500), "limit=10": Target(800, 3000)}
NESTED: Mapping[str, Target] = {
    "limit=1000": Target(175, 300),
    "limit=10": Target(600, 1000),
    "tight": Target(60, 150),
    "no match: amount": Target(60, 150),
    "2 required traits": Target(60, 150),
    "one forced host": Target(300, 1000),
    "one forced host, enabled": Target(300, 1000),
    "one forced host, traits": Target(300, 1000),
    "granular, limit=1000": Target(100, 200),
    "granular, limit=10": Target(900, 1500),
    "granular, no limit": Target(10, 15),
    "granular, tight": Target(60, 150),
    "granular, no match: amount": Target(60, 150),
    "granular, one forced host": Target(300, 1000),
    "granular, one forced host, enabled": Target(300, 1000),
    "granular, one forced host, traits": Target(300, 1000),
}
SHARED: Mapping[str, Target] = {
    "limit=1000": Target(80, 150),
    "limit=10": Target(400, 800),
    "in: two and !in: three aggregates": Target(50, 100),
    "!in: three aggregates": Target(50, 100),
    "tight": Target(15, 40),
    "no match: amount": Target(10, 20),
    "one forced host": Target(300, 1000),
    "one forced host, enabled": Target(300, 1000),
    "one forced host, traits": Target(300, 1000),
    "disk of a pool, one forced host": Target(300, 1000),
    "disk of a pool, one forced host, enabled": Target(300, 1000),
    "disk of a pool, one forced host, traits": Target(300, 1000),
    "no limit": Target(12, 20),
}
#: Of each request that a nova-compute sends every minute, and of those for one consumer or project.
READ = Target(5, 10)
#: A single host is found in so many milliseconds, however large the cloud.
FORCED_HOST = at_most(5, unit=" ms")
#: Of select_destinations: by placement's time and nova's together, ten instances by one, and
#: explain by plain.
END_TO_END = Target(60, 120)
TEN_BY_ONE = at_most(1.5, 1.2)
EXPLAIN_BY_PLAIN = at_most(1.5, 1.2)
#: Of schedulers at work on one database at the same time: selections of all in a second, and
#: claims that met others', in a hundred.
SELECTIONS = Target(60, 120, " a second")
LOST_CLAIMS = at_most(5, 1, " %")
#: From 10 000 hosts to 100 000, of what is limited.
GROWTH = at_most(1.3)
#: What a worker holds at 100 000 hosts.
HELD = at_most(300, unit=" MB")


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
    #: Whether the target is meant for the database on which it was measured.
    promised: bool = True

    @property
    def verdict(self) -> str:
        """Return in a word or two whether the target was kept."""
        if not self.promised:
            return "no target"
        return self.target.verdict(self.figure) if self.applies else "other size"
