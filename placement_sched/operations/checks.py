# SPDX-License-Identifier: Apache-2.0
"""Checks of a database: its invariants, and its readiness for an upgrade.

Invariants are checked in one snapshot without locks. Checks before an upgrade have the results and
codes of oslo.upgradecheck.
"""

from collections import Counter
from collections.abc import Mapping
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path

import orjson
from oslo_policy import opts as policy_options
from oslo_upgradecheck.upgradecheck import Code, Result

from placement_sched.config.settings import Settings
from placement_sched.db import migrate
from placement_sched.db.migrate import get_newest_revision, read_current_revision
from placement_sched.db.transaction import Database
from placement_sched.errors import Invalid, Unavailable
from placement_sched.limits import MAX_VIOLATIONS
from placement_sched.model.clock import Clock, utcnow
from placement_sched.model.provider import compute_capacity
from placement_sched.operations.adopt import find_missing_standards
from placement_sched.operations.nova_cloud import compute_reading_age, is_read_from_nova
from placement_sched.store import checks, figures
from placement_sched.store.checks import Invariant, Verified, Violation

_PROVIDER = "provider {name} ({provider})"
_MESSAGES: Mapping[Invariant, str] = {
    Invariant.OVER_CAPACITY: "{used} {resource_class} of " + _PROVIDER + " are allocated, over its "
    "capacity of {capacity} ((total {total} - reserved {reserved}) * {allocation_ratio:g}): "
    "allocated at {written}, the inventory was written at {changed}{allowed}",
    Invariant.NO_INVENTORY: "consumer {consumer} holds {used} {resource_class} of "
    + _PROVIDER
    + ", which has no inventory of it",
    Invariant.NO_PROVIDER: "consumer {consumer} holds allocations of the provider number {number}, "
    "which does not exist",
    Invariant.NO_CONSUMER: "consumer {consumer} has allocations but no record",
    Invariant.ALLOCATED_TWICE: "consumer {consumer} has {times} allocations of {resource_class} of "
    + _PROVIDER
    + ", only one is allowed",
    Invariant.NO_ALLOCATIONS: "consumer {consumer} has a record but no allocations",
    Invariant.NO_PARENT: _PROVIDER + " has the provider number {number} as parent, which does not "
    "exist",
    Invariant.PARENT_LOOP: _PROVIDER + " has no root: its parents form a cycle",
    Invariant.WRONG_ROOT: _PROVIDER + " has the provider number {number} as root, but the root of "
    "its tree is number {real}",
    Invariant.PROVIDER_TWICE: "provider {provider} has {times} records, in different spellings",
    Invariant.ANOTHER_HOST: "instance {instance} is recorded on host {host} (node {node}), but "
    "has allocations on host {there}",
    Invariant.UNKNOWN_GROUP: "instance {instance} is in the server group {group}, which does not "
    "exist",
    Invariant.AFFINITY: "members of the affinity group {name} ({group}) are on {hosts} hosts",
    Invariant.ANTI_AFFINITY: "{members} members of the anti-affinity group {name} ({group}) are on "
    "host {host}, at most {most} allowed",
    Invariant.NOT_CLAIMED: "instance {instance} was placed on host {host} by decision {decision} "
    "but has no allocations",
    Invariant.NOT_RECORDED: "instance {instance} has the allocations of decision {decision} "
    "on host {host}, but is not recorded",
}
_ALLOWED = ": allowed, if that reduced the inventory afterwards"
#: The row counts that the result includes.
_CHECKED = ("providers", "inventories", "allocations", "consumers", "aggregates")


def verify_invariants(database: Database) -> Verified:
    """Check all invariants in a snapshot and return the violations.

    Raises :class:`~placement_sched.errors.Unavailable` if the database is unavailable, and
    :class:`Invalid` for an invalid time in an SQLite database.
    """
    violations = list[Violation]()
    with database.open_snapshot() as connection:
        counted = figures.count_rows(connection)
        try:
            for invariant, row in checks.iterate_violations(connection, MAX_VIOLATIONS + 1):
                violations.append(_describe_violation(invariant, row))
        except ValueError as wrong:
            raise Invalid(f"the database has a time that cannot be read: {wrong}") from None
    numbers = Counter(item.invariant for item in violations)
    order = list(Invariant)
    # Allowed violations come last, so that they do not displace the other violations.
    violations.sort(
        key=lambda item: (order.index(Invariant(item.invariant)), item.allowed, item.detail)
    )
    by_invariant = groupby(violations, key=attrgetter("invariant"))
    named = [violation for _, same in by_invariant for violation in islice(same, MAX_VIOLATIONS)]
    return Verified(
        violations=tuple(item for item in named if not item.allowed),
        allowed=tuple(item for item in named if item.allowed),
        checked={name: getattr(counted, name) for name in _CHECKED},
        cut=frozenset(invariant for invariant in order if numbers[invariant] > MAX_VIOLATIONS),
    )


def _describe_violation(invariant: Invariant, row: Mapping[str, object]) -> Violation:
    if invariant is not Invariant.OVER_CAPACITY:
        return Violation(invariant, _MESSAGES[invariant].format(**row))
    total, reserved, ratio = (row[column] for column in ("total", "reserved", "allocation_ratio"))
    about = {
        **row,
        **{name: row[name] or "an unknown time" for name in ("changed", "written")},
        "used": int(row["used"]),  # type: ignore[call-overload]
        "capacity": compute_capacity(total, reserved, ratio),  # type: ignore[arg-type]
        "allowed": _ALLOWED if row["reduced"] else "",
    }
    return Violation(invariant, _MESSAGES[invariant].format(**about), bool(row["reduced"]))


#: The default file of oslo.policy, and its fallback.
_YAML_POLICY, _JSON_POLICY = "policy.yaml", "policy.json"
_NOT_CHECKED = "Not checked, because the schema is not up to date."
#: Minimum age, in seconds, at which records of nova's cells are outdated.
_MIN_OUTDATED_AGE = 60


def check_upgrade(
    database: Database, settings: Settings, clock: Clock = utcnow
) -> Mapping[str, Result]:
    """Map the names of all checks to their results.

    Raises :class:`Unavailable`. A result that is not a success has details of the problem and its
    fix.
    """
    schema = _check_schema(database)
    results = {"Database Schema": schema, **_check_rows(database, schema)}
    if is_read_from_nova(settings):
        results["Reading of Nova"] = _check_reading(database, schema, settings, clock)
    results["Policy File JSON to YAML Migration"] = _check_policy_file(settings)
    return results


def _check_schema(database: Database) -> Result:
    with database.read() as connection:
        contents = migrate.inspect_schema(connection)
    own, wanted = read_current_revision(database), get_newest_revision()
    if contents.complete and own == wanted:
        return Result(Code.SUCCESS)
    problem = (
        f"The schema is at revision {own or 'none'}, this release requires {wanted}. "
        'Run the "placement-sched db sync" command.'
    )
    try:
        migrate.check_revision(own)
    except Unavailable as error:
        problem = f"{error.detail[0].upper()}{error.detail[1:]}."
    if contents.foreign or (contents.revisions and contents.tables and not contents.complete):
        problem = (
            "The database belongs to OpenStack placement and is not adopted. "
            'Run the "placement-sched db adopt" command.'
        )
    return Result(Code.FAILURE, problem)


def _check_rows(database: Database, schema: Result) -> Mapping[str, Result]:
    checks = {
        "Missing Root Provider IDs": Code.FAILURE,
        "Incomplete Consumers": Code.WARNING,
        "Standard Traits and Resource Classes": Code.WARNING,
    }
    if schema.code is Code.FAILURE:
        return dict.fromkeys(checks, Result(Code.FAILURE, _NOT_CHECKED))
    with database.read() as connection:
        roots = figures.count_without_root(connection)
        consumers = figures.count_incomplete_consumers(connection)
        missing = find_missing_standards(connection)
    names = [*missing.resource_classes, *missing.traits]
    fix = 'Run the "placement-manage db online_data_migrations" command of OpenStack placement.'
    details = (
        roots
        and f"{roots} resource providers have no root provider id, so nothing is allocated from "
        f"them. {fix}",
        consumers
        and f"{consumers} consumers have allocations but no record, so they are missing in "
        f"the usage of projects. {fix}",
        names
        and f"{len(names)} standard traits or resource classes are not in the database, such as "
        f"{names[0]}. The server adds them when it starts. "
        'Run "placement-sched db sync" to add them now.',
    )
    return {
        name: Result(code, str(text)) if text else Result(Code.SUCCESS)
        for (name, code), text in zip(checks.items(), details, strict=True)
    }


def _check_reading(database: Database, schema: Result, settings: Settings, clock: Clock) -> Result:
    if schema.code is Code.FAILURE:
        return Result(Code.FAILURE, _NOT_CHECKED)
    with database.read() as connection:
        reading = compute_reading_age(connection, clock())
    if reading.oldest is None:
        problem = 'No cell of nova was read yet. Run the "placement-sched nova adopt" command.'
    elif reading.away:
        problem = f"The databases of these cells are unavailable: {', '.join(reading.away)}."
    elif reading.oldest > max(_MIN_OUTDATED_AGE, 3 * settings.scheduler.nova_sync_interval):
        problem = (
            f"A cell of nova was last read {reading.oldest} seconds ago. Check that "
            'placement-sched nova-scheduler runs, or run the "placement-sched nova sync" command.'
        )
    else:
        return Result(Code.SUCCESS)
    return Result(Code.WARNING, problem)


def _check_policy_file(settings: Settings) -> Result:
    conf = settings.conf
    # oslo.policy registers its options only when it enforces a rule.
    for group, options in policy_options.list_opts():
        conf.register_opts(options, group)
    written = conf.oslo_policy.policy_file
    path = conf.find_file(written)
    if path is None and written == _YAML_POLICY:
        path = conf.find_file(_JSON_POLICY)
    if path is None:
        return Result(Code.SUCCESS)
    try:
        orjson.loads(Path(path).read_bytes())
    except ValueError:
        return Result(Code.SUCCESS)
    return Result(
        Code.FAILURE,
        f"The policy file {path} is written in JSON, which oslo.policy has deprecated. "
        'The "oslopolicy-convert-json-to-yaml" command converts it to YAML.',
    )
