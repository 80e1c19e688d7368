"""Who may do what: oslo.policy rules, their defaults gathered from the faces' policy modules."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from oslo_policy import policy

from placement_sched.api.auth import Identity
from placement_sched.config.settings import Settings
from placement_sched.errors import Forbidden


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule as its face declares it: who may by default, and the API operations it guards.

    It is a plain value, because oslo.policy looks for extensions the moment it reads a rule, and
    keeps what it found in the user's home directory. Commands that ask no policy shall not.
    """

    name: str
    check_str: str
    description: str
    operations: tuple[Mapping[str, str], ...] = ()

    def default(self) -> policy.RuleDefault:
        """Return the rule as oslo.policy takes it."""
        if not self.operations:
            return policy.RuleDefault(self.name, self.check_str, self.description)
        operations = [
            policy.Operation(path=one["path"], method=one["method"]) for one in self.operations
        ]
        return policy.DocumentedRuleDefault(self.name, self.check_str, self.description, operations)


class Policy:
    """The rules in effect: the defaults of the faces, overridden by the operator's policy file."""

    def __init__(self, settings: Settings, rules: Iterable[Rule]) -> None:
        self._enforcer = policy.Enforcer(settings.conf)
        self._enforcer.register_defaults([rule.default() for rule in rules])

    def check(self, rule: str, identity: Identity, target: Mapping[str, Any]) -> None:
        """Raise :class:`Forbidden` unless ``identity`` may do ``rule`` to ``target``."""
        credentials = {
            "user_id": identity.user_id,
            "project_id": identity.project_id,
            "roles": list(identity.roles),
        }
        if not self._enforcer.enforce(rule, dict(target), credentials):
            raise Forbidden(f"Policy does not allow {rule} to be performed.")
