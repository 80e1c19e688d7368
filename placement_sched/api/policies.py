"""Who may do what: oslo.policy rules, their defaults gathered from the faces' policy modules."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from oslo_policy import policy

from placement_sched.api.auth import Identity
from placement_sched.config.settings import Settings, is_explicit
from placement_sched.errors import ConfigurationError, Forbidden

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule as its face declares it: who may by default, and the API operations it guards.

    ``scopes`` are the kinds of token that may at all; ``formerly`` is an older default, which is
    let in as well where ``[oslo_policy] enforce_new_defaults`` is off. ``project_key`` is the
    query parameter that names the project in question, where that is not the caller's own.

    It is a plain value, because oslo.policy looks for extensions the moment it reads a rule, and
    keeps what it found in the user's home directory. Commands that ask no policy shall not.
    """

    name: str
    check_str: str
    description: str
    operations: tuple[Mapping[str, str], ...] = ()
    scopes: tuple[str, ...] = ("project",)
    formerly: str | None = None
    project_key: str | None = None

    def default(self) -> policy.RuleDefault:
        """Return the rule as oslo.policy takes it."""
        options: dict[str, Any] = {"scope_types": list(self.scopes) or None}
        if self.formerly is not None:
            options["deprecated_rule"] = policy.DeprecatedRule(
                name=self.name,
                check_str=self.formerly,
                deprecated_reason="it was for administrators alone",
                deprecated_since="OpenStack placement 9.0",
            )
        if not self.operations:
            return policy.RuleDefault(self.name, self.check_str, self.description, **options)
        operations = [
            policy.Operation(path=one["path"], method=one["method"]) for one in self.operations
        ]
        return policy.DocumentedRuleDefault(
            self.name, self.check_str, self.description, operations, **options
        )


class Policy:
    """The rules in effect: the defaults of the faces, overridden by the operator's policy file.

    A file that changes is read again by itself.
    """

    def __init__(self, settings: Settings, rules: Iterable[Rule]) -> None:
        """Read the policy file. Raises :class:`ConfigurationError` where it cannot be read."""
        rules = tuple(rules)
        self._project_keys = {rule.name: rule.project_key for rule in rules if rule.project_key}
        self._enforcer = policy.Enforcer(settings.conf)
        self._enforcer.suppress_default_change_warnings = True
        self._enforcer.register_defaults([rule.default() for rule in rules])
        self._read(settings, {rule.name for rule in rules})

    def check(self, rule: str, identity: Identity, target: Mapping[str, Any]) -> None:
        """Raise :class:`Forbidden` unless ``identity`` may do ``rule`` to ``target``."""
        if not self._enforcer.enforce(rule, dict(target), identity.credentials()):
            raise Forbidden(f"Policy does not allow {rule} to be performed.")

    def project_key(self, rule: str) -> str | None:
        """Return which query parameter names the project that ``rule`` asks about, if one does."""
        return self._project_keys.get(rule)

    def _read(self, settings: Settings, known: set[str]) -> None:
        file = self._enforcer.policy_file
        try:
            self._enforcer.load_rules()
        except (ValueError, AttributeError, TypeError, OSError, yaml.YAMLError) as wrong:
            reason = " ".join(str(wrong).split())
            raise ConfigurationError(f"[oslo_policy] policy_file {file}: {reason}") from None
        # That a rule names another that is not there, or itself, oslo.policy logs.
        self._enforcer.check_rules()
        if self._enforcer.policy_path is None and is_explicit(
            settings.conf, "oslo_policy", "policy_file"
        ):
            LOG.warning("there is no policy file %s: the defaults hold", file)
        # A name without a colon is one that the file's other rules may refer to.
        strange = sorted(name for name in self._enforcer.file_rules if ":" in name)
        for name in strange:
            if name not in known:
                LOG.warning("the policy file changes %s, which is no rule of this service", name)
