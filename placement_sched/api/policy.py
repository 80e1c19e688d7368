# SPDX-License-Identifier: Apache-2.0
"""API policy: oslo.policy rules, their files and cached verdicts."""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any

import yaml
from oslo_config import cfg
from oslo_policy import opts, policy

from placement_sched.api.auth import Identity
from placement_sched.config.settings import Settings, is_explicit
from placement_sched.errors import ConfigurationError, Forbidden
from placement_sched.model.document import Json

LOG = logging.getLogger(__name__)

#: The checks of most rules.
ADMIN, ADMIN_OR_SERVICE = "role:admin", "role:admin or role:service"

#: Maximum number of cached verdicts. The cache is cleared when it is full.
MAX_VERDICTS = 2_000
#: Maximum length of a cache key in characters, because clients may send long queries and roles.
MAX_KEY_CHARACTERS = 2_000

#: Seconds between two checks of the policy files. A check takes 5 % of the time of a short request.
PAUSE = 0.5
#: A reference to another rule in the text of a check.
_REFERENCE = re.compile(r"\brule:([\w:.-]+)")
#: The only token scope that the rules accept.
_SCOPE = "project"


@dataclass(frozen=True, slots=True)
class Rule:
    """An API policy rule with its default.

    ``formerly`` is the deprecated default, which also applies unless ``[oslo_policy]
    enforce_new_defaults`` is set. ``project_key`` is the query parameter with the project to check.
    None: the project of the caller.

    A rule is not an object of oslo.policy, because oslo.policy searches for extensions when it
    parses a rule, and caches them in the user's home directory. Commands that check no policy avoid
    the search and the cache.
    """

    name: str
    check_str: str
    description: str
    formerly: str | None = None
    project_key: str | None = None

    def build_default(self, operations: "Sequence[policy.Operation]" = ()) -> policy.RuleDefault:
        """Convert the rule to an object of oslo.policy."""
        options: dict[str, Any] = {"scope_types": [_SCOPE]}
        if self.formerly is not None:
            options["deprecated_rule"] = policy.DeprecatedRule(
                name=self.name,
                check_str=self.formerly,
                deprecated_reason="only administrators were allowed",
                deprecated_since="OpenStack placement 9.0",
            )
        arguments = (self.name, self.check_str, self.description)
        if not operations:
            return policy.RuleDefault(*arguments, **options)
        return policy.DocumentedRuleDefault(*arguments, list(operations), **options)


class Policy:
    """Effective rules: defaults and policy files, reloaded when they change."""

    def __init__(self, settings: Settings, rules: Iterable[Rule]) -> None:
        """Read the policy files, or raise :class:`ConfigurationError`."""
        self._settings = settings
        self._rules = tuple(rules)
        self._project_keys = {rule.name: rule.project_key for rule in self._rules}
        self._reload_lock = Lock()
        opts.set_defaults(settings.conf)  # registers the options
        # The stamps are taken before the files are read, so that a concurrent change is noticed.
        self._stamps, self._next_check = _read_stamps(settings.conf), monotonic() + PAUSE
        self._read = _LoadedRules(_create_enforcer(settings, self._rules))

    def check(self, rule: str, identity: Identity, target: Mapping[str, str]) -> None:
        """Raise :class:`Forbidden` unless ``rule`` allows the caller."""
        if not self.allows(rule, identity, target):
            message = f"Policy does not allow {rule} to be performed."
            if (scope := identity.get_scope()) != _SCOPE:
                message += f" The token has {scope} scope, but the rule accepts {_SCOPE}."
                LOG.warning("%s", message)
            raise Forbidden(message)

    def allows(self, rule: str, identity: Identity, target: Mapping[str, str]) -> bool:
        """Return whether ``rule`` allows ``identity`` on ``target``."""
        if monotonic() >= self._next_check:
            self._reload()
        return self._read.allows(rule, identity, target)

    def find_project_key(self, rule: str) -> str | None:
        """Return the query parameter with the target project of ``rule``, or None."""
        return self._project_keys.get(rule)

    def describe_files(self) -> Json:
        """Return the existing policy files, and the rules that they change."""
        changed = self._read.enforcer.file_rules.keys() & self._project_keys.keys()
        files = [name for name in _list_files(self._settings.conf) if Path(name).is_file()]
        return {"policy_files": files, "changed_rules": sorted(changed)}

    def _reload(self) -> None:
        """Reload changed policy files, unless another thread is doing so.

        oslo.policy itself would change the rules in place, and reject concurrent requests whose
        rules are not loaded yet. It also does not notice that a file was removed, or replaced by an
        older file.
        """
        if not self._reload_lock.acquire(blocking=False):
            return
        try:
            self._next_check = monotonic() + PAUSE
            stamps, previous = _read_stamps(self._settings.conf), self._stamps
            self._stamps = stamps
            if stamps != previous:
                self._read = _LoadedRules(_create_enforcer(self._settings, self._rules))
        except ConfigurationError as error:
            LOG.error("%s (the previous rules remain in effect)", error)  # noqa: TRY400 - the whole reason
            self._read = _LoadedRules(self._read.enforcer)
        finally:
            self._reload_lock.release()


class AdministratorPolicy(Policy):
    """Policy of an administrator of this machine, who may do everything."""

    def allows(self, rule: str, identity: Identity, target: Mapping[str, str]) -> bool:  # noqa: ARG002
        """Return True."""
        return True


def _list_files(conf: cfg.ConfigOpts) -> list[str]:
    options = conf.oslo_policy
    names = [conf.find_file(name) for name in (options.policy_file, *options.policy_dirs)]
    paths = [Path(name) for name in names if name is not None]
    inside: list[Path] = []
    for path in filter(Path.is_dir, paths):
        with suppress(OSError):
            inside += path.iterdir()
    return [str(path) for path in (*paths, *inside)]


def _read_stamps(conf: cfg.ConfigOpts) -> dict[str, tuple[int, int, int]]:
    stamps: dict[str, tuple[int, int, int]] = {}
    for file in _list_files(conf):
        with suppress(OSError):
            status = Path(file).stat()
            stamps[file] = status.st_ino, status.st_mtime_ns, status.st_size
    return stamps


class _LoadedRules:
    """The rules of the policy files, with a cache of verdicts."""

    def __init__(self, enforcer: policy.Enforcer) -> None:
        self.enforcer = enforcer
        self._verdicts: dict[tuple[object, ...], bool] = {}
        # Third-party checks may depend on a server, whose response changes (http:, https:).
        self._can_cache = all(map(_depends_on_arguments_alone, enforcer.rules.values()))

    def allows(self, rule: str, identity: Identity, target: Mapping[str, str]) -> bool:
        key = (rule, identity.build_key(), *target.items())
        verdict = self._verdicts.get(key)
        if verdict is None:
            verdict = bool(self.enforcer.enforce(rule, dict(target), identity.build_credentials()))
            if self._can_cache and _count_characters(key) <= MAX_KEY_CHARACTERS:
                if len(self._verdicts) >= MAX_VERDICTS:
                    self._verdicts.clear()
                self._verdicts[key] = verdict
        return verdict


def _count_characters(key: object) -> int:
    if isinstance(key, tuple):
        return sum(map(_count_characters, key))
    return len(key) if isinstance(key, str) else 0


def _depends_on_arguments_alone(check: object) -> bool:
    """Return whether only rule, caller and target decide, as in oslo.policy."""
    if type(check).__module__ != policy.RuleCheck.__module__:
        return False
    parts = [*getattr(check, "rules", ())]
    if isinstance(check, policy.NotCheck):
        parts.append(check.rule)
    return all(map(_depends_on_arguments_alone, parts))


def check_files(settings: Settings, rules: Iterable[Rule]) -> None:
    """Check the policy files, or raise :class:`ConfigurationError`."""
    opts.set_defaults(settings.conf)
    _load_rules(settings, tuple(rules))


def _create_enforcer(settings: Settings, rules: Sequence[Rule]) -> policy.Enforcer:
    enforcer = _load_rules(settings, rules)
    enforcer.use_conf = False  # do not check for changed files at each call
    # oslo.policy logs references to missing rules, and cycles.
    enforcer.check_rules()
    if enforcer.policy_path is None and is_explicit(settings.conf, "oslo_policy", "policy_file"):
        LOG.warning("there is no policy file %s, so the default rules apply", enforcer.policy_file)
    # A name without a colon may be a helper rule of the file.
    valid_names = {rule.name for rule in rules}
    for name in sorted(enforcer.file_rules):
        if ":" in name and name not in valid_names:
            LOG.warning("the policy file changes %s, which is not a rule of this service", name)
    for rule in rules:
        changed = enforcer.file_rules.get(rule.name)
        if ":" not in rule.name and changed is not None and changed.check_str != rule.check_str:
            _warn_of_compute_rules(rule.name, enforcer.rules)
    return enforcer


def _warn_of_compute_rules(helper: str, checks: Mapping[str, Any]) -> None:
    """Log that a helper rule of placement changes rules of the compute API."""
    references = {name: set(_REFERENCE.findall(str(check))) for name, check in checks.items()}
    names = {helper}
    while further := {name for name in references if references[name] & names} - names:
        names |= further
    compute = sorted(name for name in names if name.startswith("os_compute_api:"))
    if compute and any(name.startswith("placement:") for name in names):
        LOG.warning(
            "the policy file changes %s, a helper rule of placement, and with it %s rules of the "
            "compute API, such as %s: define these rules in the file, too",
            helper,
            len(compute),
            compute[0],
        )


def _load_rules(settings: Settings, rules: Sequence[Rule]) -> policy.Enforcer:
    enforcer = policy.Enforcer(settings.conf)
    enforcer.suppress_default_change_warnings = True
    enforcer.register_defaults([rule.build_default() for rule in rules])
    try:
        enforcer.load_rules()
    except (ValueError, AttributeError, TypeError, OSError, cfg.Error, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        main = settings.conf.find_file(settings.conf.oslo_policy.policy_file)
        faults: list[str] = []
        for file in _list_files(settings.conf):
            try:
                if not Path(file).is_dir():
                    policy.Rules.load(Path(file).read_text())
            except Exception as fault:  # noqa: BLE001 - the error of any file is reported
                option = "policy_file" if file == main else "policy_dirs"
                # The first error is that of oslo.policy.
                words = " ".join(str(fault).split()) if faults else reason
                faults.append(f"{option} {file}: {words}")
        faults = faults or [f"policy_file {enforcer.policy_file}: {reason}"]
        raise ConfigurationError(f"[oslo_policy] {'; '.join(faults)}") from None
    return enforcer
