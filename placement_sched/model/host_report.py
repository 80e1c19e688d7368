"""The hosts that passed, each with its weight and what every weigher gave to it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from placement_sched.model.report import EVERYTHING, View

Json = dict[str, Any]


class WeightReport(NamedTuple):
    """How one weigher judged one host; ``raw`` is after clamping by minval and maxval."""

    raw: float
    normalized: float
    multiplier: float

    def as_json(self) -> Json:
        """Return the entry as the contract shows it."""
        return {
            "raw": self.raw,
            "normalized": self.normalized,
            "multiplier": self.multiplier,
            "weighted": self.multiplier * self.normalized,
        }


@dataclass(frozen=True, slots=True)
class HostReport:
    """A host that passed, with its weight and what each weigher (by name) gave to it."""

    host: str
    node: str
    weight: float
    weights: Mapping[str, WeightReport]

    def as_json(self, told: dict[WeightReport, Json] | None = None) -> Json:
        """Return the entry as the contract shows it.

        ``told`` keeps the entries of weights: few differ between the hosts of a cloud.
        """
        told = {} if told is None else told
        weights: dict[str, Json] = {}
        for name, weight in self.weights.items():
            entry = told.get(weight)
            if entry is None:
                entry = told[weight] = weight.as_json()
            weights[name] = entry
        return {"host": self.host, "node": self.node, "weight": self.weight, "weights": weights}


def hosts_as_json(hosts: Iterable[HostReport], view: View = EVERYTHING) -> list[Json]:
    """Return the hosts that passed, in the order given, as the contract shows them."""
    told: dict[WeightReport, Json] = {}
    return [host.as_json(told) for host in hosts if view.shows(host.host, host.node)]
