# SPDX-License-Identifier: Apache-2.0
"""Checks before an upgrade, with the results and codes of oslo.upgradecheck."""

from collections.abc import Mapping
from pathlib import Path

import orjson
from oslo_policy import opts as policy_options
from oslo_upgradecheck.upgradecheck import Code, Result

from placement_sched.config.settings import Settings
from placement_sched.db import migrate
from placement_sched.db.migrate import current_revision, newest_revision
from placement_sched.db.transaction import Database
from placement_sched.model.clock import Clock, utcnow
from placement_sched.operations.adopt import missing_standards
from placement_sched.operations.nova_cloud import is_read_from_nova, reading_of
from placement_sched.store import row_counts

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
    own, wanted = current_revision(database), newest_revision()
    if contents.complete and own == wanted:
        return Result(Code.SUCCESS)
    problem = (
        f"The schema is at revision {own or 'none'}, this release requires {wanted}. "
        'Run the "placement-sched db sync" command.'
    )
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
        roots = row_counts.without_root(connection)
        consumers = row_counts.incomplete_consumers(connection)
        missing = missing_standards(connection)
    names = [*missing.resource_classes, *missing.traits]
    fix = 'Run the "placement-manage db online_data_migrations" command of OpenStack placement.'
    details = (
        roots
        and f"{roots} resource providers have no root provider id, so nothing is allocated from "
        f"them. {fix}",
        consumers
        and f"{consumers} consumers hold allocations and have no record, so they are missing in "
        f"the usage of projects. {fix}",
        names
        and f"{len(names)} standard traits or resource classes are not in the database, such as "
        f"{names[0]}. The server adds them when it starts; "
        '"placement-sched db sync" does so now.',
    )
    return {
        name: Result(code, str(text)) if text else Result(Code.SUCCESS)
        for (name, code), text in zip(checks.items(), details, strict=True)
    }


def _check_reading(database: Database, schema: Result, settings: Settings, clock: Clock) -> Result:
    if schema.code is Code.FAILURE:
        return Result(Code.FAILURE, _NOT_CHECKED)
    with database.read() as connection:
        reading = reading_of(connection, clock())
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
