"""From the providers of a combination to what each of them gives: few layouts, many requests."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from placement_sched.candidates.harvest import Served
from placement_sched.candidates.names import Names
from placement_sched.candidates.parts import Part
from placement_sched.model.candidate import AllocationRequest, Layout


class Layouts:
    """The layouts of the requests of one search, each made once."""

    def __init__(self, parts: Sequence[Part], names: Names) -> None:
        """Lay out combinations of a provider for each of these parts."""
        self._parts = parts
        self._names = names.class_names
        self._made: dict[tuple[int, ...], Layout] = {}

    def place(self, served: Served, uuids: Mapping[int, str]) -> AllocationRequest:
        """Return what a combination allocates; ``uuids`` are those of providers by id."""
        order: dict[int, int] = {}
        pattern = tuple([order.setdefault(one, len(order)) for one in served.providers])
        layout = self._made.get(pattern)
        if layout is None:
            layout = self._made[pattern] = self._layout(pattern, len(order))
        named = tuple([uuids[one] for one in order])
        return AllocationRequest(layout, named, uuids[served.root])

    def _layout(self, pattern: tuple[int, ...], places: int) -> Layout:
        """Return the layout for slots in these places: what they ask of one provider adds up."""
        amounts: tuple[dict[str, int], ...] = tuple({} for _ in range(places))
        mappings: dict[str, dict[int, None]] = defaultdict(dict)
        for part, place in zip(self._parts, pattern, strict=True):
            mappings[part.slot.suffix][place] = None
            for class_id, amount in part.slot.amounts:
                name = self._names[class_id]
                amounts[place][name] = amounts[place].get(name, 0) + amount
        return Layout(amounts, {suffix: tuple(held) for suffix, held in mappings.items()})
