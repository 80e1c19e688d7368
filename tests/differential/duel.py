"""Both sides asked the same, kept in step, and compared."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from random import Random
from urllib.parse import unquote

from tests.differential.compare import Differences, differences, normal
from tests.differential.exchange import Reply, Request
from tests.differential.explained import LEFT_BEHIND, SPELLING, Seen, explain, oddly_spelled
from tests.differential.generate.sequence import sequence
from tests.differential.sides import Ours, Peer
from tests.differential.state import clear, dump, resolved

#: After so many requests both start anew, so that what led to a difference is never long.
EPISODE = 200


@dataclass(frozen=True)
class Finding:
    """An unexplained difference, and the requests since both were empty; the last one shows it."""

    history: tuple[Request, ...]
    differences: Differences

    @property
    def kind(self) -> tuple[str, ...]:
        """Return what findings of the same cause have in common, more or less."""
        last = self.history[-1]
        told = [f"{key}:{value}" for key, value in self.differences.items() if key == "status"]
        return (last.method, last.path.split("/")[1], *sorted(self.differences), *told)


@dataclass
class Tally:
    """What came of a run."""

    requests: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    explained: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)


class Duel:
    """Two sides, asked in turn."""

    def __init__(self, ours: Ours, theirs: Peer) -> None:
        self._ours = ours
        self._theirs = theirs

    def run(self, seed: int, requests: int) -> Tally:
        """Send random requests, and return how often what differed."""
        tally = Tally()
        random = Random(seed)
        while tally.requests < requests:
            self.clear()
            many = min(EPISODE, requests - tally.requests)
            self._episode(islice(sequence(random), many), tally)
        return tally

    def clear(self) -> None:
        """Make both empty."""
        clear(self._ours)
        clear(self._theirs)

    def replay(self, history: Iterable[Request]) -> Iterator[Differences]:
        """Yield, of each request of a history on empty sides, what differs and is not explained."""
        self.clear()
        for request in history:
            yield self._compare(request)
        yield self.apart()

    def apart(self) -> Differences:
        """Return where the states of both differ, as far as anybody could see."""
        ours, theirs = normal(dump(self._ours)), normal(dump(self._theirs))
        if ours == theirs:
            return {}
        keys = sorted(ours.keys() | theirs.keys())
        return {
            f"state of {key}": (ours.get(key), theirs.get(key))
            for key in keys
            if ours.get(key) != theirs.get(key)
        }

    def _episode(self, requests: Iterable[Request], tally: Tally) -> None:
        history: list[Request] = []
        for request in requests:
            history.append(request)
            tally.requests += 1
            seen, found = self._ask(request)
            tally.statuses[seen.ours.status] += 1
            tally.explained[LEFT_BEHIND.name] += self._mend(seen)
            names, left = explain(seen, found)
            tally.explained.update(names)
            if left:
                tally.findings.append(Finding(tuple(history), left))
            if _may_part(seen, found) and self.apart():
                tally.explained[SPELLING.name] += not found
                return
        if left := self.apart():
            tally.findings.append(Finding(tuple(history), left))

    def _compare(self, request: Request) -> Differences:
        seen, found = self._ask(request)
        self._mend(seen)
        return explain(seen, found)[1]

    def _ask(self, request: Request) -> tuple[Seen, Differences]:
        sent = resolved(self._ours, request)
        ours, theirs = self._ours.ask(sent), self._theirs.ask(sent)
        ours, theirs = self._in_step(sent, ours, theirs)
        seen = Seen(sent, ours, theirs, self._ours, self._theirs)
        return seen, differences(sent, ours, theirs)

    def _mend(self, seen: Seen) -> int:
        path = unquote(seen.request.path)
        may_leave = seen.request.method in {"PUT", "POST"} and "/allocations" in path
        return self._theirs.forget_left_behind() if may_leave or path == "/reshaper" else 0

    def _in_step(self, request: Request, ours: Reply, theirs: Reply) -> tuple[Reply, Reply]:
        """Take away what each made under a uuid of its own choice, and blot that uuid out."""
        made = [reply.headers.get("location", "") for reply in (ours, theirs)]
        if request.method != "POST" or not all(made) or made[0] == made[1]:
            return ours, theirs
        for side, location in zip((self._ours, self._theirs), made, strict=True):
            path = location.removeprefix("http://placement")
            side.ask(Request("DELETE", path, "1.39"))
        return _blotted(ours, made[0]), _blotted(theirs, made[1])


def _may_part(seen: Seen, found: Differences) -> bool:
    """Return whether both may have another state now, with what was said explained or the same."""
    if seen.request.method in {"GET", "HEAD"}:
        return False
    return bool(found.keys() & {"status", "body"}) or (
        seen.ours.status < 300 and oddly_spelled(seen.request)
    )


def _blotted(reply: Reply, location: str) -> Reply:
    uuid = location.rpartition("/")[2]
    headers = {name: value.replace(uuid, "made") for name, value in reply.headers.items()}
    return replace(reply, headers=headers, body=reply.body.replace(uuid.encode(), b"made"))
