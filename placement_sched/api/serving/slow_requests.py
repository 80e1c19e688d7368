"""Slow requests in the log: what took the time, and what a selection's funnel let through."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from placement_sched.api.metrics import asked_of
from placement_sched.api.request_context import WSGI, context_of
from placement_sched.db.engine import Tally

LOG = logging.getLogger(__name__)


def watching(application: WSGI, seconds: float, tally: Tally) -> WSGI:
    """Return ``application``, logging requests that take so many ``seconds`` or more; 0 logs none.

    To be put inside of what resets ``tally``.
    """
    if not seconds:
        return application

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        began = time.perf_counter()

        def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            took = time.perf_counter() - began
            if took >= seconds:
                _log(environ, status.partition(" ")[0], took, tally)
            return start_response(status, headers, *rest)

        return application(environ, start)

    return serve


def _log(environ: dict[str, Any], status: str, took: float, tally: Tally) -> None:
    asked = asked_of(environ)
    what = f"{asked.method} /{asked.face}{asked.route}" if asked else "a request beside the APIs"
    made = tally.made
    about = {
        "status": int(status),
        "duration_ms": round(took * 1000, 1),
        "statements": tally.statements,
        "candidates": tally.candidates,
        "stages_ms": {name: round(one * 1000, 1) for name, one in tally.stages.items()},
        "decision": made and made.uuid,
        "outcome": made and made.outcome,
        "funnel": funnel_summary(tally.funnel) if tally.funnel else None,
    }
    if asked:
        about |= asked._asdict()
    LOG.warning(
        "slow: %s took %.1f s (status %s); %s",
        what,
        took,
        status,
        "; ".join(_parts(about)),
        extra={"context": context_of(environ), "extra": about},
    )


def _parts(about: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the line says of a request, as far as there is something to say."""
    yield f"{about['statements']} SQL statements"
    if about["candidates"] is not None:
        yield f"{about['candidates']} candidates"
    if about["stages_ms"]:
        longest = sorted(about["stages_ms"].items(), key=lambda one: -one[1])
        yield ", ".join(f"{name} {took:.0f} ms" for name, took in longest)
    if about["funnel"]:
        yield f"hosts {about['funnel']}"
    if about["decision"]:
        yield f"{about['outcome']}, decision {about['decision']}"


def funnel_summary(funnel: Mapping[str, Any]) -> str:
    """Return how many hosts came in, and how many each stage that removed any let through."""
    candidates = funnel.get("allocation_candidates") or {}
    steps = [(one["constraint"], one) for one in candidates.get("steps", ())]
    steps += [(one["name"], one) for one in funnel.get("filters", ())]
    if not steps:
        return ""
    removing = [f"{name} {one['after']}" for name, one in steps if one["after"] < one["before"]]
    return " > ".join([str(steps[0][1]["before"]), *removing])
