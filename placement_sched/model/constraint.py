# SPDX-License-Identifier: Apache-2.0
"""Constraints of a candidates query, as explanations name them."""

from dataclasses import dataclass, field
from typing import NamedTuple

import os_traits

from placement_sched.model.candidates_query import RequestGroup, TraitTerms
from placement_sched.model.document import Json

#: Families of constraints, as named in explanations.
RESOURCES, REQUIRED, MEMBER_OF, IN_TREE = "resources", "required", "member_of", "in_tree"
ROOT_REQUIRED, GROUP_POLICY, SAME_SUBTREE = "root_required", "group_policy", "same_subtree"
#: Steps without a constraint of their own: providers do not serve together, and the limit of hosts.
COMBINATION, LIMIT = "combination", "limit"
#: The code of rejections of hosts that the request does not name.
OTHER_TREE = "other_tree"


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint of a request group, of the root, or a rule about groups.

    ``family`` is the key ``constraint`` of explanations, such as ``required``. ``names`` are the
    traits or aggregates (any of them), the tree, or the groups of a rule. ``resource_class`` and
    ``amount`` are set for a constraint on resources. ``suffix`` is the suffix of the request group.
    ``part`` is a request group with this constraint alone (rules: an empty group).
    """

    family: str
    part: RequestGroup = field(default_factory=RequestGroup)
    names: tuple[str, ...] = ()
    is_forbidden: bool = False
    resource_class: str = ""
    amount: int = 0
    suffix: str = ""

    @property
    def kind(self) -> str:
        """Return the code of the rejections of this constraint."""
        if self == NOT_DISABLED:
            return "disabled"
        return _KINDS.get((self.family, self.is_forbidden), self.family)

    @property
    def is_on_root(self) -> bool:
        """Return whether the root of a tree must meet the constraint."""
        return self.family == ROOT_REQUIRED

    def as_json(self) -> Json:
        """Return the kind and the values, as keys of a step in JSON."""
        keys: Json = {"kind": self.kind}
        if self.resource_class:
            keys |= {"resource_class": self.resource_class, "requested": self.amount}
        elif self.family == LIMIT:
            keys["hosts"] = self.amount
        elif subject := _SUBJECTS.get(self.family):
            keys[subject] = list(self.names)
        keys |= {"root": True} if self.is_on_root else {}
        return keys | ({"group": self.suffix} if self.suffix else {})


#: Codes of rejections, by family and whether the names are forbidden.
_KINDS = {
    (RESOURCES, False): "capacity",
    (REQUIRED, False): "missing_trait",
    (REQUIRED, True): "forbidden_trait",
    (ROOT_REQUIRED, False): "missing_trait",
    (ROOT_REQUIRED, True): "forbidden_trait",
    (MEMBER_OF, False): "not_in_aggregate",
    (MEMBER_OF, True): "forbidden_aggregate",
    (IN_TREE, False): OTHER_TREE,
}
#: The keys of the names in JSON.
_SUBJECTS = {
    REQUIRED: "traits",
    ROOT_REQUIRED: "traits",
    MEMBER_OF: "aggregates",
    IN_TREE: "trees",
    SAME_SUBTREE: "groups",
    COMBINATION: "rules",
}


#: The constraint that hosts with a disabled compute service violate.
NOT_DISABLED = Constraint(
    ROOT_REQUIRED,
    RequestGroup(traits=TraitTerms((), frozenset({os_traits.COMPUTE_STATUS_DISABLED}))),
    (os_traits.COMPUTE_STATUS_DISABLED,),
    is_forbidden=True,
)
#: The rule that groups with a suffix use separate providers.
ISOLATE = Constraint(GROUP_POLICY)


class LimitingOption(NamedTuple):
    """The option that sets the limit, and the source of an override."""

    option: str
    option_source: str | None = None

    def as_json(self) -> dict[str, str]:
        """Return the option as keys of a step or rejection."""
        return {key: value for key, value in self._asdict().items() if value is not None}
