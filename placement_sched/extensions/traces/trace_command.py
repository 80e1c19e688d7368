# SPDX-License-Identifier: Apache-2.0
"""``trace``: the requests of a period, run again."""

import argparse
import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from io import StringIO
from typing import Any

from rich.console import Console

from placement_sched.app import make_local_application
from placement_sched.cli.arguments import (
    Commands,
    WrongArguments,
    add_command,
    add_group,
    add_output,
    parse_positive_number,
    rejected_arguments,
)
from placement_sched.cli.database import (
    add_cloud_sources,
    find_cloud_source,
    read_command_settings,
    read_configuration,
)
from placement_sched.cli.main import INTERRUPTED
from placement_sched.cli.output import (
    Column,
    Output,
    make_table,
    print_output,
    show_progress,
    show_waiting,
    write_text,
)
from placement_sched.cli.scheduler.render_explanation import render
from placement_sched.errors import Invalid
from placement_sched.extensions.traces.comparison import VariantResult, build_comparison
from placement_sched.extensions.traces.events import Trace, format_trace, read_time, read_trace
from placement_sched.extensions.traces.export import export_events
from placement_sched.extensions.traces.runs import RunOptions, RunResult, Variant, run_trace
from placement_sched.model.clock import parse_time, utcnow
from placement_sched.model.document import Json
from placement_sched.model.names import format_count
from placement_sched.model.short_forms import FORMS, parse_change, parse_overrides
from placement_sched.operations.fleet.cloud import expand
from placement_sched.operations.prepare import freeze_loaded_objects
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.schemas import parts
from placement_sched.schemas.formats import DocumentError
from placement_sched.schemas.validation import Schema

_SUMMARY = "run the requests of a period again with other settings or hardware"
_LIMITS = (
    "The run has no failed boots and no load, and the demand does not react to refused requests."
)
_CHANGE = "change"
#: A comma between two changes in a short form. Other commas belong to a change.
_BETWEEN_CHANGES = re.compile(rf",\s*(?=(?:{'|'.join(parts.CHANGE_KINDS)})=)")
#: Characters of a time up to the minute, such as 2026-11-03T10:15.
_MINUTES = 16
_CHANGES = Schema(parts.CHANGES)


def _format_range(figure: str, row: Json) -> str:
    values = row[figure]
    text = f"{values['median']:g}"
    if values["min"] != values["max"]:
        text += f" ({values['min']:g}-{values['max']:g})"
    return text


def _get_first(name: str, row: Json) -> Any:
    return (row["first_refused"] or {}).get(name) or None


def _format_first_time(row: Json) -> str:
    time: str | None = _get_first("time", row)
    return time[:_MINUTES] if time else "-"


def _build_figure_column(heading: str, figure: str) -> Column:
    return Column(
        heading, lambda row: row[figure]["median"], partial(_format_range, figure), right=True
    )


_COLUMNS = (
    Column("Variant", lambda row: row["variant"]),
    _build_figure_column("Refused", "refused"),
    Column("First refused", partial(_get_first, "time"), _format_first_time),
    Column("Flavor", partial(_get_first, "flavor")),
    Column("Lacking", lambda row: _get_first("subject", row) or _get_first("stage", row)),
    _build_figure_column("Hosts in use", "used_hosts"),
    _build_figure_column("Mean in use", "mean_used_hosts"),
    _build_figure_column("Empty hosts", "empty_hosts"),
    Column("Largest flavor", lambda row: row["largest_flavor"]),
    Column("Reason", partial(_get_first, "reason"), hidden=True),
)


def register(commands: Commands) -> None:
    """Add the commands."""
    group = add_group(commands, "trace", _SUMMARY)
    summary = "run a trace on the cloud of a fleet file, once for each variant"
    epilog = "The page traces of the documentation describes the events of a trace."
    parser = add_command(group, "run", summary, _run, epilog=epilog)
    parser.add_examples(
        "trace.jsonl --fleet cloud.yaml --as now "
        "--as 'packed: filter_scheduler.ram_weight_multiplier=-1'",
        "trace.jsonl --fleet cloud.yaml --as now --as 'more: change add=cn3*4' -f csv",
    )
    parser.add_argument("trace", metavar="TRACE", help="the trace, a JSON event a line (-: stdin)")
    parser.add_argument(
        "--as",
        dest="variants",
        action="append",
        default=[],
        metavar="VARIANT",
        help="run the trace as NAME: GROUP.OPTION=VALUE ... change CHANGE,... with other options "
        f"and hardware, or as NAME without changes (repeatable, default: now). Changes: {FORMS}",
    )
    parser.add_argument(
        "--seeds",
        type=parse_positive_number,
        default=1,
        metavar="N",
        help="run each variant N times with other random choices (default: %(default)s)",
    )
    parser.add_argument(
        "--explain",
        type=parse_positive_number,
        metavar="N",
        help="explain the N-th refused request of each variant",
    )
    parser.add_argument(
        "--empty", action="store_true", help="start without the servers of the fleet file"
    )
    parser.add_argument(
        "--skip-invalid",
        action="store_true",
        help="leave out invalid events, and count them, instead of an error",
    )
    parser.add_argument(
        "--over-time", metavar="FILE", help="also write the hosts in use over time as CSV"
    )
    add_cloud_sources(parser, has_login=False)
    add_output(parser)
    summary = "write the recorded requests and the ends of instances to a trace"
    parser = add_command(group, "export", summary, _run_export, epilog=epilog)
    parser.add_examples("--since 7d week.jsonl")
    parser.add_argument("file", metavar="FILE", help="the file to write (-: standard output)")
    parser.add_argument(
        "--since",
        default="7d",
        metavar="TIME",
        help="begin at this time: an age (2h, 7d) or ISO 8601 (default: %(default)s)",
    )


def _run(arguments: argparse.Namespace) -> int:
    """Print the comparison of the variants, after Ctrl-C of the finished runs."""
    if find_cloud_source(arguments) is None:
        raise WrongArguments("the run needs a cloud: add --fleet FILE")
    with rejected_arguments():
        trace = read_trace(arguments.trace, skip_invalid=arguments.skip_invalid)
        settings = [_parse_variant(text) for text in arguments.variants or ["now"]]
    names = [name for name, _, _ in settings]
    if len(set(names)) < len(names):
        raise WrongArguments("--as: two variants have the same name")
    application = make_local_application(read_command_settings(arguments))
    with closing(application), rejected_arguments():
        freeze_loaded_objects()  # collections would take a tenth of the time
        scheduler = application.services.scheduler
        variants = [_build_variant(scheduler, *each) for each in settings]
        results, is_complete = _run_all(scheduler, trace, variants, arguments)
    document = build_comparison(trace, results, is_complete=is_complete)
    if arguments.over_time is not None:
        write_text(arguments.over_time, _format_samples(document))
    rows = document["variants"]
    report = partial(_print_report, document, results)
    print_output(arguments, Output(document, _COLUMNS, rows, report))
    return 0 if is_complete else INTERRUPTED


def _run_export(arguments: argparse.Namespace) -> int:
    """Write the trace of the database."""
    with rejected_arguments():
        since = read_time(parse_time(arguments.since, utcnow(), "--since"))
    with (
        read_configuration(arguments, must_exist=True) as (_, database),
        show_waiting("reading decisions"),
        database.open_snapshot() as connection,
    ):
        events = export_events(connection, since)
    write_text(arguments.file, format_trace(events))
    return 0


def _run_all(
    scheduler: Scheduler, trace: Trace, variants: Sequence[Variant], arguments: argparse.Namespace
) -> tuple[list[VariantResult], bool]:
    """Run all variants, and return their results and whether all runs ended."""
    number, results = len(trace.events), list[VariantResult]()
    total, finished = number * len(variants) * arguments.seeds, 0
    with show_progress("running", counts=True) as show:
        for variant in variants:
            runs: list[RunResult] = []
            for seed in range(arguments.seeds):
                options = RunOptions(
                    is_empty=arguments.empty,
                    skips_invalid=arguments.skip_invalid,
                    explained=None if seed else arguments.explain,
                    advance=lambda done, start=finished: show(start + done, total),  # type: ignore[misc]
                )
                try:
                    runs.append(run_trace(scheduler, trace, variant, seed, options))
                    is_interrupted = runs[-1].is_interrupted
                except KeyboardInterrupt:  # before the first event of the run
                    is_interrupted = True
                    if not results and not runs:
                        raise
                if is_interrupted:
                    unfinished = [VariantResult(variant, tuple(runs))] if runs else []
                    return [*results, *unfinished], False
                finished += number
            results.append(VariantResult(variant, tuple(runs)))
    return results, True


def _parse_variant(text: str) -> tuple[str, Json, list[Json]]:
    """Parse ``NAME: GROUP.OPTION=VALUE ... change CHANGE,...``."""
    name, _, description = text.partition(":")
    words = iter(description.split())
    overrides, changes = list[str](), list[str]()
    for word in words:
        if word != _CHANGE:
            overrides.append(word)
            continue
        change = next(words, "")
        while change.endswith(","):
            change += next(words, "")
        changes += _BETWEEN_CHANGES.split(change)
    label = f"--as {text}:"
    documents = [_expand_hosts(parse_change(each, label), label) for each in changes]
    return name.strip(), parse_overrides(overrides, label), documents


def _expand_hosts(change: Json, label: str) -> Json:
    """Expand patterns such as ``old[01-20]`` in lists of hosts."""
    try:
        return {
            kind: [name for pattern in value for name in expand(pattern)]
            if isinstance(value, list)
            else value
            for kind, value in change.items()
        }
    except DocumentError as failure:
        raise Invalid(f"{label} {failure}") from None


def _build_variant(
    scheduler: Scheduler, name: str, overrides: Json, documents: list[Json]
) -> Variant:
    label = f"--as {name}"
    try:
        _CHANGES.check(documents, "changes")
        scheduler.reader.check_overrides(overrides)
        return Variant(name, overrides, scheduler.read_changes(documents))
    except Invalid as failure:
        raise Invalid(f"{label}: {failure.detail}") from None


def _print_report(document: Json, results: Sequence[VariantResult], console: Console) -> None:
    for result in results:
        if (explanation := result.runs[0].explanation) is not None:
            console.print(f"{result.variant.name}:")
            render(explanation, console)
            console.print()
    variants = document["variants"]
    table = make_table("", *(variant["variant"] for variant in variants))
    for column in _COLUMNS[1:]:
        if not column.hidden:
            table.add_row(column.name, *(column.format(variant) for variant in variants))
    console.print(table)
    console.print()
    for line in _iterate_remarks(document):
        console.print(line, soft_wrap=True)


def _iterate_remarks(document: Json) -> Iterator[str]:
    variants = document["variants"]
    seeds = len(variants[0]["runs"])
    for each in document["differences"]:
        more, change = (
            ("more", each["median"]) if each["median"] > 0 else ("fewer", -each["median"])
        )
        holds = f" (in all {seeds} seeds)" if seeds > 1 else ""
        yield f"{each['variant']}: {change:g} {more} {each['name']} than {each['than']}{holds}"
    if len(variants) > 1 and document["complete"] and not document["differences"]:
        yield "No difference between the variants holds in all seeds."
    first = variants[0]["runs"][0]
    if not document["complete"]:
        done = variants[-1]["runs"][-1]["events"]
        yield f"Interrupted after event {done} of {document['events']} of the last run."
    if skipped := document["skipped"] + first["skipped"]:
        yield f"{format_count(skipped, 'invalid event')} left out."
    if number := first["kept_devices"]:
        yield (
            f"The fleet file has {format_count(number, 'server')} of the trace on hosts with NUMA "
            "nodes or PCI devices: the CPUs, pages and devices of these servers stay used."
        )
    yield _LIMITS


def _format_samples(document: Json) -> str:
    names = ("time", "servers", "used_hosts", "empty_hosts", "refused")
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("variant", "seed", *names))
    for variant in document["variants"]:
        for run in variant["runs"]:
            for sample in run["samples"]:
                values = (sample[name] for name in names)
                writer.writerow((variant["variant"], run["seed"], *values))
    return text.getvalue()
