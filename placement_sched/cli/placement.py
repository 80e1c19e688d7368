# SPDX-License-Identifier: Apache-2.0
"""``placement``: the commands of ``nova-manage placement``.

``placement sync_aggregates`` and ``placement sync_traits`` make placement match host aggregates.
``placement audit`` finds orphaned allocations, and hosts with several policies. With
``--invariants`` it verifies the invariants of the database instead.
``placement heal_allocations`` creates missing allocations of instances.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from enum import IntEnum
from functools import partial
from pathlib import Path

from placement_sched.cli.arguments import (
    ALL_RECORDED,
    Commands,
    add_all_recorded,
    add_command,
    add_format,
    add_group,
    parse_positive_number,
    parse_uuid,
)
from placement_sched.cli.database import (
    check_file_exists,
    read_command_settings,
    read_configuration,
)
from placement_sched.cli.login import add_login_arguments, make_adapters
from placement_sched.cli.output import print_result, show_progress, show_waiting
from placement_sched.clients.placement import RemotePlacement, open_trait_file, read_remote_hosts
from placement_sched.clients.session import MICROVERSIONS, RemoteService, silence_library_logs
from placement_sched.db.transaction import Database
from placement_sched.errors import Invalid
from placement_sched.limits import MAX_VIOLATIONS
from placement_sched.model.aggregates import HostMap
from placement_sched.model.clock import utcnow
from placement_sched.model.document import Json
from placement_sched.model.names import format_count, shorten_names
from placement_sched.operations.checks import verify_invariants
from placement_sched.operations.provider_sync import (
    LocalPlacement,
    Placement,
    SyncRun,
    group_by_name,
    read_local_hosts,
    sync_aggregates,
    sync_traits,
)
from placement_sched.operations.repair import (
    Audit,
    Auditor,
    Healer,
    Healing,
    HealOutcome,
    HealRequest,
    UnverifiedReason,
    can_records_be_outdated,
)
from placement_sched.scheduler.policies.registry import get_policies
from placement_sched.store.checks import VerificationResult

#: Exit status of nova-manage for an unexpected failure.
_UNEXPECTED = 255
_SYNC_CODES = """exit status, {as_nova}:
  0    done
{first}  2    placement failed, or sent an unexpected response
  3    the provider of a host could not be changed
  4    a host of an aggregate has no service and no compute node
  5    a host has a service, but no compute node
  6    a host has no resource provider
{last}  255  any other failure, such as no response from the compute API or the database
"""
_SEVERAL = "  1    a host has several compute nodes\n"
_REJECTED_CODES = (
    "  7    an aggregate requires a trait that does not exist and is not CUSTOM_\n"
    "  8    a trait added for an aggregate that is not in the list remains\n"
)
#: Sentence for each reason why a consumer remains unverified.
_REASONS = {
    UnverifiedReason.ADOPTED: (
        "OpenStack placement created this database, so they may be instances of nova that were "
        "never recorded here"
    ),
    UnverifiedReason.NOTHING_RECORDED: "no instance is recorded in this database",
    UnverifiedReason.NO_TYPE: (
        "they have no consumer type, like consumers that nova creates, so they may be instances or "
        "migrations of nova, for example an unconfirmed resize"
    ),
    UnverifiedReason.NOT_REPORTED: (
        "the providers may belong to a host that does not report to this service"
    ),
    UnverifiedReason.MORE_REPORTED: "the hosts report more instances than are recorded on them",
}


def _add_sync_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--verbose", action="store_true", help="report each change")
    add_format(parser)
    services = parser.add_argument_group(
        "services",
        "Without these options, the configured database is used for both. With a single address,\n"
        "the database is still used for the other service.",
    )
    services.add_argument(
        "--url",
        metavar="URL",
        help="the placement API to change (http://controller/placement), "
        "of OpenStack placement or of this service, with microversion "
        f"{MICROVERSIONS['placement'][0]} or newer",
    )
    services.add_argument(
        "--compute-url",
        metavar="URL",
        help="the compute API to read host aggregates from (http://controller:8774/v2.1), of "
        f"nova or of this service, with microversion {MICROVERSIONS['compute'][0]} or newer",
    )
    add_login_arguments(services)


def _add_sync(group: Commands) -> None:
    parser = add_command(
        group,
        "sync_aggregates",
        "make provider aggregates match host aggregates, as nova-manage does",
        _run_sync_aggregates,
        epilog=_SYNC_CODES.format(as_nova="as in nova-manage", first=_SEVERAL, last=""),
        failure=_UNEXPECTED,
    )
    parser.add_examples("--verbose", "--os-cloud mycloud")
    parser.add_argument(
        "--remove-stale",
        action="store_true",
        help="also remove the provider of a compute node from a provider aggregate if its host is "
        "not in the host aggregate (default: only report it)",
    )
    _add_sync_options(parser)
    as_nova = "as for sync_aggregates, with two more statuses"
    parser = add_command(
        group,
        "sync_traits",
        "add the traits that aggregates require (trait:X=required) to the providers of their hosts",
        _run_sync_traits,
        epilog=_SYNC_CODES.format(as_nova=as_nova, first="", last=_REJECTED_CODES),
        failure=_UNEXPECTED,
    )
    parser.add_examples("--dry-run")
    parser.add_argument("--dry-run", action="store_true", help="only report the changes")
    parser.add_argument("--aggregate", metavar="NAME", help="only for this host aggregate")
    parser.add_argument(
        "--state",
        metavar="FILE",
        type=Path,
        help="with --url or --os-cloud: record added traits in this file, so that they can be "
        "removed when no aggregate requires them (without the file, traits are not removed)",
    )
    _add_sync_options(parser)


def _run_sync_aggregates(arguments: argparse.Namespace) -> int:
    run = _synchronize(
        arguments, sync_aggregates, "aggregates", remove_stale=arguments.remove_stale
    )
    providers = {
        "added": group_by_name(run.added),
        "removed": group_by_name(run.removed),
        "stale": group_by_name(run.stale),
    }
    lines, documents = [], []
    for aggregate in run.hosts.aggregates:
        changes = {change: uuids[aggregate.uuid] for change, uuids in providers.items()}
        if not any(changes.values()):
            continue
        entries = {change: _build_entries(run.hosts, uuids) for change, uuids in changes.items()}
        documents.append({"uuid": aggregate.uuid, "name": aggregate.name, **entries})
        counts = [
            f"{len(uuids)} {change}{_format_names(run.hosts, uuids)}"
            for change, uuids in changes.items()
            if uuids
        ]
        lines.append(f"{aggregate.name}: {'; '.join(counts)}")
    if run.stale:
        lines.append(f"{len(run.stale)} stale memberships remain. --remove-stale removes them")
    elif not run.problems:
        number = format_count(len(run.hosts.aggregates), "host aggregate")
        lines.append(f"{number}, no differences in placement")
    return _print_sync(arguments, run, {"aggregates": documents}, lines)


def _run_sync_traits(arguments: argparse.Namespace) -> int:
    options = {"aggregate": arguments.aggregate, "dry_run": arguments.dry_run}
    run = _synchronize(arguments, sync_traits, "traits", **options)
    has_record, would = run.placement.has_record, "would be " if run.dry_run else ""
    document = {"dry_run": run.dry_run, "remembers": has_record, "created": run.created}
    lines = [f"{trait}: {would}created" for trait in run.created]
    for key, verb, pairs in (
        ("put", "added to", run.added),
        ("taken_off", "removed from", run.removed),
    ):
        entries: list[Json] = []
        for trait, uuids in sorted(group_by_name(pairs).items()):
            entries += _build_entries(run.hosts, uuids, trait=trait)
            count = format_count(len(uuids), "provider")
            lines.append(f"{trait}: {would}{verb} {count}{_format_names(run.hosts, uuids)}")
        document[key] = entries
    if not (lines or run.problems):
        lines.append("all providers have the traits that aggregates require")
    if not has_record:
        lines.append(
            "traits are not removed without a record of added traits. --state FILE creates a record"
        )
    return _print_sync(arguments, run, document, lines)


def _synchronize(
    arguments: argparse.Namespace,
    sync: Callable[..., SyncRun],
    noun: str,
    **options: str | bool | None,
) -> SyncRun:
    state: Path | None = getattr(arguments, "state", None)

    def print_verbose(line: str) -> None:
        if arguments.verbose:
            print(line, file=sys.stderr if arguments.format == "json" else sys.stdout)

    with silence_library_logs(), ExitStack() as stack:
        urls = {
            "placement": ("--url", arguments.url),
            "compute": ("--compute-url", arguments.compute_url),
        }
        # An API without an adapter is read from the database.
        adapters = make_adapters(arguments, urls)
        services = {kind: RemoteService(adapter, kind) for kind, adapter in adapters.items()}
        compute, remote = services.get("compute"), services.get("placement")
        if state is not None and remote is None:
            raise Invalid("--state is only valid with a remote placement (--url, --os-cloud)")
        if compute is None or remote is None:
            database = stack.enter_context(Database(read_command_settings(arguments)))
            check_file_exists(database, "--url, --compute-url and --os-cloud use services")
        read_hosts = (
            partial(read_remote_hosts, compute) if compute else partial(read_local_hosts, database)
        )
        placement: Placement
        if remote is None:
            placement = LocalPlacement(database, utcnow, has_local_hosts=compute is None)
        else:
            record = stack.enter_context(open_trait_file(state, remote.url)) if state else None
            placement = RemotePlacement(remote, record)
        progress = stack.enter_context(show_progress(f"synchronising {noun}"))
        return sync(read_hosts, placement, note=print_verbose, progress=progress, **options)


def _print_sync(
    arguments: argparse.Namespace, run: SyncRun, document: Json, lines: list[str]
) -> int:
    problems = [asdict(problem) for problem in run.problems]
    print_result(arguments, {"code": run.code, **document, "problems": problems}, lines)
    sys.stderr.writelines(f"placement-sched: {problem.detail}\n" for problem in run.problems)
    return run.code


def _build_entries(hosts: HostMap, uuids: Iterable[str], **fields: str) -> list[Json]:
    providers = sorted((hosts.host_of.get(uuid) or "", uuid) for uuid in uuids)
    return [{**fields, "host": host or None, "provider": uuid} for host, uuid in providers]


def _format_names(hosts: HostMap, providers: Iterable[str]) -> str:
    return f" ({shorten_names(sorted(hosts.host_of.get(uuid, uuid) for uuid in providers))})"


def register(commands: Commands) -> None:
    """Add the commands."""
    summary = "synchronise, audit and heal placement, as nova-manage placement does"
    group = add_group(commands, "placement", summary)
    _add_sync(group)
    _add_audit(group)
    _add_heal(group)


def _verify_invariants(arguments: argparse.Namespace) -> int:
    options = {
        "--delete": arguments.delete,
        "--resource_provider": arguments.resource_provider is not None,
        "--consumer": bool(arguments.consumer),
        ALL_RECORDED: arguments.instances_are_all_recorded,
    }
    for option, is_set in options.items():
        if is_set:
            raise Invalid(f"--invariants and {option} exclude each other")
    with read_configuration(arguments, must_exist=True) as (_, database), show_waiting("verifying"):
        result = verify_invariants(database)
    code = AuditCode.VIOLATED if result.violations else AuditCode.CLEAN
    violations, allowed = (
        [{"invariant": row.invariant.value, "detail": row.detail} for row in rows]
        for rows in (result.violations, result.allowed)
    )
    document = {
        "code": int(code),
        "checked": dict(result.checked),
        "violations": violations,
        "allowed": allowed,
        "more_of": sorted(result.truncated),
    }
    print_result(arguments, document, _format_invariants(result, verbose=arguments.verbose))
    return code


def _format_invariants(result: VerificationResult, *, verbose: bool) -> Iterator[str]:
    if verbose:
        counts = (f"{number} {name}" for name, number in result.checked.items())
        yield f"checked in a single snapshot: {', '.join(counts)}"
    for violation in result.violations:
        yield f"{violation.invariant}: {violation.detail}"
    for violation in result.allowed:
        yield f"allowed: {violation.invariant}: {violation.detail}"
    for invariant in sorted(result.truncated):
        yield f"{invariant}: more are broken, but only the first {MAX_VIOLATIONS} are listed"
    if not result.violations:
        yield "all invariants hold"
        return
    number = len(result.violations)
    plus = "+" * bool(result.truncated)
    kinds = format_count(len({violation.invariant for violation in result.violations}), "kind")
    yield f"{number}{plus} broken invariant{'s'[: number != 1]} of {kinds}"


class AuditCode(IntEnum):
    """Exit status as in nova-manage, which does not have the codes 5 to 7."""

    CLEAN = 0
    UNEXPECTED = 1
    FOUND = 3
    DELETED = 4
    POLICIES = 5
    NOT_JUDGED = 6
    VIOLATED = 7
    WRONG_INPUT = 127


def _add_audit(group: Commands) -> None:
    parser = add_command(
        group,
        "audit",
        "find allocations of consumers that are not recorded instances",
        _run_audit,
        epilog=(
            "exit status, as in nova-manage:\n"
            "  0    no orphaned allocations were found\n"
            "  1    an unexpected error occurred\n"
            "  3    orphaned allocations were found\n"
            "  4    orphaned allocations were found and all deleted\n"
            "  5    an aggregate names an unknown policy, or a host has several policies:\n"
            "       orphaned allocations are still reported and deleted\n"
            "  6    some consumers could not be verified, because the instances of their hosts\n"
            "       are not recorded here: their allocations were not deleted\n"
            "  7    with --invariants: an invariant is violated (0: all hold)\n"
            "  127  wrong input"
        ),
        failure=AuditCode.UNEXPECTED,
        wrong_input=AuditCode.WRONG_INPUT,
    )
    parser.add_examples("--verbose", "--invariants")
    parser.add_argument("--delete", action="store_true", help="delete the orphaned allocations")
    parser.add_argument(
        "--resource_provider",
        "--resource-provider",
        type=parse_uuid,
        metavar="UUID",
        help="check only this provider (default: the providers of all compute nodes)",
    )
    add_all_recorded(parser)
    parser.add_argument(
        "--consumer",
        type=parse_uuid,
        metavar="UUID",
        action="append",
        default=[],
        help="check only this consumer, and treat it as orphaned if it is not a recorded "
        "instance, even if it could not be verified (repeatable)",
    )
    parser.add_argument(
        "--invariants",
        action="store_true",
        help="verify the invariants of allocations, providers, server groups and decisions "
        "instead of the audit, in a single snapshot. Nothing is changed",
    )
    words = "also print the checked objects, and each consumer that cannot be verified"
    parser.add_argument("--verbose", action="store_true", help=words)
    add_format(parser)


def _run_audit(arguments: argparse.Namespace) -> int:
    if arguments.invariants:
        return _verify_invariants(arguments)
    uuid = arguments.resource_provider
    with (
        read_configuration(arguments, must_exist=True) as (settings, database),
        show_progress("deleting") as show,
    ):
        auditor = Auditor(
            database=database,
            clock=utcnow,
            unknown_owner=settings.unknown_owner,
            provider_uuid=uuid,
            # An audit of a single provider or consumer is only about its allocations.
            policies=None if uuid or arguments.consumer else get_policies(settings),
            all_recorded=arguments.instances_are_all_recorded,
            consumers=frozenset(arguments.consumer),
            down_time=settings.DEFAULT.service_down_time,
        )
        audit = auditor.find()
        if arguments.delete:
            auditor.reject_living(audit)
            audit = auditor.delete(audit, show)
    if audit.unverified and arguments.delete:
        code = AuditCode.NOT_JUDGED
    elif audit.policy_faults:
        code = AuditCode.POLICIES
    elif audit.orphaned:
        code = AuditCode.DELETED if arguments.delete else AuditCode.FOUND
    else:
        code = AuditCode.NOT_JUDGED if audit.unverified else AuditCode.CLEAN
    print_result(
        arguments, _build_audit_document(audit, code), _format_audit(audit, arguments, uuid)
    )
    if arguments.delete and audit.unverified:
        consumers = format_count(len(audit.unverified), "consumer")
        hint = (
            f"placement-sched: not deleted: the allocations of {consumers}, which may be instances "
            "or migrations that are not recorded here. nova-manage placement audit verifies the "
            "consumers of nova. To delete the allocations of a consumer anyway, name it with "
            "--consumer"
        )
        if any(entry.has_type for entry in audit.unverified):
            hint += (
                f". If every instance of this cloud is recorded here, {ALL_RECORDED} verifies "
                "all consumers of the type INSTANCE"
            )
        sys.stdout.flush()
        sys.stderr.write(f"{hint}\n")
    return code


def _build_audit_document(audit: Audit, code: AuditCode) -> dict[str, object]:
    unverified = [
        {"consumer": entry.consumer, "reason": entry.reason.value, "about": entry.about}
        for entry in audit.unverified
    ]
    optional = {"policies": audit.policy_faults, "not_verified": unverified}
    return {
        "code": int(code),
        "orphaned": [
            {
                "consumer": entry.consumer,
                "resource_provider": entry.provider_uuid,
                "resource_provider_name": entry.provider_name,
                "resources": entry.resources,
                **({"runs_on": entry.runs_on} if entry.runs_on else {}),
            }
            for entry in audit.orphaned
        ],
        "consumers": len(audit.consumers),
        "deleted": audit.deleted,
        **{key: value for key, value in optional.items() if value},
    }


def _format_audit(audit: Audit, arguments: argparse.Namespace, uuid: str | None) -> Iterator[str]:
    if arguments.verbose:
        checked = [f"resource provider {uuid}"] if uuid else []
        checked += [f"consumer {consumer}" for consumer in arguments.consumer]
        yield f"checked {', '.join(checked) or 'every compute node'}"
    yield from audit.policy_faults
    for orphan in audit.orphaned:
        resources = ", ".join(
            f"{amount} {name}" for name, amount in sorted(orphan.resources.items())
        )
        subject = (
            f"instance {orphan.consumer} is on {orphan.runs_on} now"
            if orphan.runs_on
            else f"consumer {orphan.consumer} is not a recorded instance"
        )
        yield f"{subject} and holds {resources} of {orphan.provider_name} ({orphan.provider_uuid})"
    for consumer, reason in audit.reasons.items():
        yield f"consumer {consumer} {reason}"
    for kind, sentence in _REASONS.items():
        entries = [entry for entry in audit.unverified if entry.reason is kind]
        if not entries:
            continue
        for entry in entries if arguments.verbose else ():
            yield f"consumer {entry.consumer} cannot be verified ({', '.join(entry.about)})"
        about = shorten_names(sorted({name for entry in entries for name in entry.about}))
        yield f"not verified: {format_count(len(entries), 'consumer')} of {about}: {sentence}"
    if not audit.orphaned and not audit.unverified:
        yield "no orphaned allocations"
    elif audit.orphaned:
        summary = f"orphaned: the allocations of {format_count(len(audit.consumers), 'consumer')}"
        yield f"{summary}; deleted: {audit.deleted}" if arguments.delete else summary


class HealCode(IntEnum):
    """Exit status as in nova-manage, without 5 to 8 (neutron ports)."""

    HEALED = 0
    MORE = 1
    NO_NODE = 2
    FAILED = 3
    NOTHING = 4
    OUTDATED = 9
    WRONG_INPUT = 127
    UNEXPECTED = 255


_HEAL_FAILURES = {HealOutcome.NO_NODE: HealCode.NO_NODE, HealOutcome.FAILED: HealCode.FAILED}


def _add_heal(group: Commands) -> None:
    parser = add_command(
        group,
        "heal_allocations",
        "create the missing allocations of recorded instances from their flavors",
        _run_heal,
        epilog=(
            "exit status, as in nova-manage:\n"
            "  0    allocations were created\n"
            "  1    --max-count was reached, and more instances need healing\n"
            "  2    the compute node of an instance was not found\n"
            "  3    the allocations of an instance could not be created\n"
            "  4    nothing to create, and no failure (as always with --dry-run)\n"
            "  5-8  not used: statuses of nova-manage for ports of neutron\n"
            "  9    rejected: nova may have deleted recorded instances\n"
            "  127  wrong input\n"
            "  255  an unexpected error occurred"
        ),
        failure=HealCode.UNEXPECTED,
        wrong_input=HealCode.WRONG_INPUT,
    )
    parser.add_examples("--dry-run --verbose")
    count_help = "heal at most N instances (default: all)"
    parser.add_argument("--max-count", type=parse_positive_number, metavar="N", help=count_help)
    parser.add_argument("--verbose", action="store_true", help="report every instance")
    parser.add_argument("--dry-run", action="store_true", help="only report the changes")
    for option, value, text in (
        ("--instance", "UUID", "heal only this instance"),
        ("--cell", "CELL_UUID", "heal instances on nodes of this cell"),
    ):
        parser.add_argument(option, type=parse_uuid, metavar=value, help=text)
    force_help = "with --instance: recreate existing allocations"
    parser.add_argument("--force", action="store_true", help=force_help)
    add_all_recorded(parser)
    ports_help = "ignored: allocations of ports are never healed"
    parser.add_argument("--skip-port-allocations", action="store_true", help=ports_help)
    add_format(parser)


def _run_heal(arguments: argparse.Namespace) -> int:
    if arguments.instance is not None and arguments.cell is not None:
        raise Invalid("--instance and --cell exclude each other")
    if arguments.force and arguments.instance is None:
        raise Invalid("--force needs --instance")
    request = HealRequest(
        instance=arguments.instance,
        cell_uuid=arguments.cell,
        limit=arguments.max_count if arguments.instance is None else None,
        force=arguments.force,
        dry_run=arguments.dry_run,
    )
    is_confirmed = arguments.instances_are_all_recorded or request.instance is not None
    healings: list[Healing] = []
    with read_configuration(arguments, must_exist=True) as (settings, database):
        if not (is_confirmed or request.dry_run) and can_records_be_outdated(database):
            sys.stderr.write(
                "placement-sched: nothing was healed: OpenStack placement created this database, "
                "so nova may have deleted an instance without allocations since it was recorded "
                "here. Use --dry-run, heal a single instance with --instance or, if every "
                f"recorded instance exists, repeat the command with {ALL_RECORDED}\n"
            )
            print_result(arguments, _build_heal_document([], HealCode.OUTDATED), [])
            return HealCode.OUTDATED
        healer = Healer(
            database=database, clock=utcnow, unknown_owner=settings.unknown_owner, request=request
        )
        with show_progress("healing") as progress:
            total = healer.count()
            for healing in healer.heal():
                healings.append(healing)
                progress(len(healings), total)
        healed = sum(healing.is_healed for healing in healings)
        failures = [_HEAL_FAILURES.get(healing.outcome) for healing in healings]
        if failure := next(filter(None, failures), None):
            code = failure
        elif request.dry_run or not healed:
            code = HealCode.NOTHING
        elif healed == request.limit and healer.has_more(healings[-1].instance):
            code = HealCode.MORE
        else:
            code = HealCode.HEALED
    lines = _format_healings(healings, verbose=arguments.verbose, dry_run=request.dry_run)
    print_result(arguments, _build_heal_document(healings, code), lines)
    return code


def _build_heal_document(healings: Sequence[Healing], code: HealCode) -> dict[str, object]:
    return {
        "code": int(code),
        "instances": [
            {
                "uuid": healing.instance,
                "outcome": healing.outcome.value,
                "allocations": healing.allocations,
                "reason": healing.reason,
            }
            for healing in healings
        ],
    }


def _format_healings(healings: Sequence[Healing], *, verbose: bool, dry_run: bool) -> Iterator[str]:
    would = "would be " * dry_run
    for healing in healings:
        if healing.allocations is not None:
            allocations = "; ".join(
                f"{', '.join(f'{amount} {name}' for name, amount in sorted(amounts.items()))}"
                f" of {uuid}"
                for uuid, amounts in sorted(healing.allocations.items())
            )
            yield f"instance {healing.instance}: {would}{healing.outcome.value}: {allocations}"
        elif verbose or healing.outcome is not HealOutcome.SKIPPED:
            yield f"instance {healing.instance}: {healing.outcome.value}: {healing.reason}"
    failed, healed = (
        sum(healing.outcome in _HEAL_FAILURES for healing in healings),
        sum(healing.is_healed for healing in healings),
    )
    yield f"{format_count(healed, 'instance')} {would}healed, {failed} failed"
