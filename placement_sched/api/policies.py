"""Who may do what: oslo.policy rules, their defaults gathered from the faces' policy modules."""

from collections.abc import Iterable, Mapping
from typing import Any

from oslo_policy import policy

from placement_sched.api.auth import Identity
from placement_sched.config.settings import Settings
from placement_sched.errors import Forbidden


class Policy:
    """The rules in effect: the defaults of the faces, overridden by the operator's policy file."""

    def __init__(self, settings: Settings, defaults: Iterable[policy.RuleDefault]) -> None:
        self._enforcer = policy.Enforcer(settings.conf)
        self._enforcer.register_defaults(list(defaults))

    def check(self, rule: str, identity: Identity, target: Mapping[str, Any]) -> None:
        """Raise :class:`Forbidden` unless ``identity`` may do ``rule`` to ``target``."""
        credentials = {
            "user_id": identity.user_id,
            "project_id": identity.project_id,
            "roles": list(identity.roles),
        }
        if not self._enforcer.enforce(rule, dict(target), credentials):
            raise Forbidden(f"Policy does not allow {rule} to be performed.")
