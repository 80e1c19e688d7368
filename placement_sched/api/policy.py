"""Who may do what: oslo.policy rules, their defaults gathered from the faces' policy modules."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any

import yaml
from oslo_config import cfg
from oslo_policy import opts, policy

from placement_sched.api.auth import Identity
from placement_sched.config.opts import is_explicit
from placement_sched.config.settings import Settings
from placement_sched.config.watch import Watch
from placement_sched.errors import ConfigurationError, Forbidden
from placement_sched.model.document import Json

LOG = logging.getLogger(__name__)

#: How many verdicts are remembered; then all are forgotten, so that memory stays bounded.
MOST_VERDICTS = 10_000
#: Characters up to which a question is remembered with its verdict, and of all that are: a caller's
#: query may be long, and a list asks about each of its items.
LONGEST_QUESTION, MOST_CHARACTERS = 20_000, 5_000_000

#: Seconds between two looks at the policy files: a look at every request would take a twentieth of
#: a short one, and the operator who changes a rule does not notice.
PAUSE = 0.5


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
        said = (self.name, self.check_str, self.description)
        if not self.operations:
            return policy.RuleDefault(*said, **options)
        operations = [
            policy.Operation(path=one["path"], method=one["method"]) for one in self.operations
        ]
        return policy.DocumentedRuleDefault(*said, operations, **options)


class Policy:
    """The rules in effect: the defaults of the faces, overridden by the operator's policy files.

    Files that change are read again by themselves; where they cannot be, the previous rules stay in
    effect. A verdict is remembered until then, as asking oslo.policy takes longer than the rest
    of what a short request is asked before it is answered.
    """

    def __init__(self, settings: Settings, rules: Iterable[Rule]) -> None:
        """Read the policy files. Raises :class:`ConfigurationError` where one cannot be read."""
        self._settings = settings
        self._rules = tuple(rules)
        self._project_keys = {rule.name: rule.project_key for rule in self._rules}
        self._scopes = {rule.name: rule.scopes for rule in self._rules}
        self._reading = Lock()
        opts.set_defaults(settings.conf)  # which makes the options known
        # Looked at before they are read: what changes meanwhile is seen at the next request.
        self._watch = Watch(partial(_files, settings.conf), PAUSE, monotonic)
        self._read = _Read(_enforcer(settings, self._rules))

    def check(self, rule: str, identity: Identity, target: Mapping[str, str]) -> None:
        """Raise :class:`Forbidden` unless ``identity`` may do ``rule`` to ``target``."""
        if not self.allows(rule, identity, target):
            message = f"Policy does not allow {rule} to be performed."
            scope, scopes = identity.scope(), self._scopes.get(rule, ())
            if scopes and scope not in scopes:
                message += f" The token has {scope} scope; the rule accepts {' or '.join(scopes)}."
                LOG.warning("%s", message)
            raise Forbidden(message)

    def allows(self, rule: str, identity: Identity, target: Mapping[str, str]) -> bool:
        """Return whether ``identity`` may do ``rule`` to ``target``; log nothing."""
        if self._watch.is_due():
            self._read_again()
        return self._read.allows(rule, identity, target)

    def project_key(self, rule: str) -> str | None:
        """Return which query parameter names the project that ``rule`` asks about, if one does."""
        return self._project_keys.get(rule)

    def shown(self) -> Json:
        """Return the files that rules are read from, and the rules that they set, for people."""
        changed = self._read.enforcer.file_rules.keys() & self._project_keys.keys()
        files = [name for name in _files(self._settings.conf) if Path(name).is_file()]
        return {"policy_files": files, "changed_rules": sorted(changed)}

    def _read_again(self) -> None:
        """Read the policy files again if they have changed and no other thread does."""
        if not self._reading.acquire(blocking=False):
            return
        try:
            if self._watch.changed():
                self._read = _Read(_enforcer(self._settings, self._rules))
        except ConfigurationError as wrong:
            LOG.error("%s; keeping the previous rules", wrong)  # noqa: TRY400 - the whole reason
            self._read = _Read(self._read.enforcer)
        finally:
            self._reading.release()


def _files(conf: cfg.ConfigOpts) -> list[str]:
    """Return the files and directories that ``[oslo_policy]`` names and oslo.policy would read."""
    options = conf.oslo_policy
    found = [conf.find_file(name) for name in (options.policy_file, *options.policy_dirs)]
    paths = [Path(name) for name in found if name is not None]
    inside: list[Path] = []
    for path in filter(Path.is_dir, paths):
        with suppress(OSError):
            inside += path.iterdir()
    return [str(path) for path in (*paths, *inside)]


class _Read:
    """What the files said when they were read, and the verdicts given by it so far."""

    def __init__(self, enforcer: policy.Enforcer) -> None:
        self.enforcer = enforcer
        self._verdicts: dict[tuple[object, ...], bool] = {}
        self._remembered = 0  # characters of their questions
        # Third-party checks may ask a server, whose answer changes (http:, https:).
        self._lasting = all(map(_depends_on_arguments_alone, enforcer.rules.values()))

    def allows(self, rule: str, identity: Identity, target: Mapping[str, str]) -> bool:
        key = (rule, identity.key(), *target.items())
        verdict = self._verdicts.get(key)
        if verdict is None:
            verdict = bool(self.enforcer.enforce(rule, dict(target), identity.credentials()))
            if self._lasting and (length := _characters(key)) <= LONGEST_QUESTION:
                self._remembered += length
                if len(self._verdicts) >= MOST_VERDICTS or self._remembered > MOST_CHARACTERS:
                    self._verdicts.clear()
                    self._remembered = length
                self._verdicts[key] = verdict
        return verdict


def _characters(question: object) -> int:
    """Return how many characters the texts of a question have, however deep they are in it."""
    if isinstance(question, tuple):
        return sum(map(_characters, question))
    return len(question) if isinstance(question, str) else 0


def _depends_on_arguments_alone(check: object) -> bool:
    """Return whether ``check`` is oslo.policy's own, which look at rule, caller and target."""
    if type(check).__module__ != policy.RuleCheck.__module__:
        return False
    parts = [*getattr(check, "rules", ())]
    if isinstance(check, policy.NotCheck):
        parts.append(check.rule)
    return all(map(_depends_on_arguments_alone, parts))


def check_files(settings: Settings, rules: Iterable[Rule]) -> None:
    """Raise :class:`ConfigurationError` where a policy file is unreadable; log nothing else."""
    opts.set_defaults(settings.conf)
    _loaded(settings, tuple(rules))


def _enforcer(settings: Settings, rules: Sequence[Rule]) -> policy.Enforcer:
    """Return the rules in effect; raise :class:`ConfigurationError` where a file is unreadable."""
    enforcer = _loaded(settings, rules)
    enforcer.use_conf = False  # else it would look for changed files at every question
    # That a rule names another that is not there, or itself, oslo.policy logs.
    enforcer.check_rules()
    if enforcer.policy_path is None and is_explicit(settings.conf, "oslo_policy", "policy_file"):
        LOG.warning("there is no policy file %s; the default rules apply", enforcer.policy_file)
    # A name without a colon is one that the file's other rules may refer to.
    known = {rule.name for rule in rules}
    for name in sorted(enforcer.file_rules):
        if ":" in name and name not in known:
            LOG.warning("the policy file changes %s, which is not a rule of this service", name)
    return enforcer


def _loaded(settings: Settings, rules: Sequence[Rule]) -> policy.Enforcer:
    enforcer = policy.Enforcer(settings.conf)
    enforcer.suppress_default_change_warnings = True
    enforcer.register_defaults([rule.default() for rule in rules])
    file = enforcer.policy_file
    try:
        enforcer.load_rules()
    except (ValueError, AttributeError, TypeError, OSError, cfg.Error, yaml.YAMLError) as wrong:
        reason = " ".join(str(wrong).split())
        raise ConfigurationError(f"[oslo_policy] policy_file {file}: {reason}") from None
    return enforcer
