"""Slow requests in the log: what took the time, and what a selection's funnel let through."""

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

from placement_sched.api.metrics import asked_of
from placement_sched.api.request_context import WSGI, context_of
from placement_sched.model.request_stats import request_stats
from placement_sched.scheduler.explain.funnel import sentence_of, spent_by

LOG = logging.getLogger(__name__)


def watching(application: WSGI, seconds: float) -> WSGI:
    """Return ``application``, logging requests that take so many ``seconds`` or more; 0 logs none.

    To be put inside of :func:`~placement_sched.api.metrics.counted`, which begins new statistics.
    """
    if not seconds:
        return application

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        began = time.perf_counter()

        def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            took = time.perf_counter() - began
            if took >= seconds:
                _log(environ, status.partition(" ")[0], took)
            return start_response(status, headers, *rest)

        return application(environ, start)

    return serve


def _log(environ: dict[str, Any], status: str, took: float) -> None:
    asked = asked_of(environ)
    what = f"{asked.method} /{asked.face}{asked.route}" if asked else "a request beside the APIs"
    spent = spent_by(request_stats())
    about = {"status": int(status), "duration_ms": round(took * 1000, 1), **spent}
    if asked:
        about |= asked._asdict()
    LOG.warning(
        "slow: %s took %.1f s (status %s); %s",
        what,
        took,
        status,
        sentence_of(spent),
        extra={"context": context_of(environ), "extra": about},
    )
