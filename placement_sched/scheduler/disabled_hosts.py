"""Why hosts are disabled: the trait that keeps them out of the candidates does not tell."""

from dataclasses import replace

import os_traits

from placement_sched.candidates.constraints import ROOT_REQUIRED
from placement_sched.db.connection import Connection
from placement_sched.model.report import CandidatesReport, Rejected, StepReport
from placement_sched.model.service import Service, why_disabled
from placement_sched.store import services

_DETAIL = f"!{os_traits.COMPUTE_STATUS_DISABLED}"


def told(connection: Connection, report: CandidatesReport) -> CandidatesReport:
    """Return the report with what the operator gave as the reason of each disabled host.

    One statement, where a report tells of such hosts. A provider that has the trait without a
    disabled service keeps the reason that names the trait.
    """
    listed = {rejected.host for step in report.steps if _is_it(step) for rejected in step.rejected}
    if not listed:
        return report
    known = services.by_hosts(connection, listed)
    steps = tuple(
        replace(step, rejected=tuple(_reason(one, known.get(one.host)) for one in step.rejected))
        if _is_it(step)
        else step
        for step in report.steps
    )
    return replace(report, steps=steps)


def _is_it(step: StepReport) -> bool:
    return step.constraint == ROOT_REQUIRED and step.detail == _DETAIL


def _reason(rejected: Rejected, service: Service | None) -> Rejected:
    if service is None or not service.disabled:
        return rejected
    return replace(rejected, reason=why_disabled(service.disabled_reason))
