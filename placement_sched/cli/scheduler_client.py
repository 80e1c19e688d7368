"""The scheduler API of a server, asked over HTTP."""

import json
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

from placement_sched.cli.addresses import check_address, check_token
from placement_sched.errors import Error, Invalid, NoValidHost, Unavailable

Json = dict[str, Any]

#: Seconds to wait for an answer; a request that waits for locks is answered by the server sooner.
TIMEOUT = 120


class SchedulerClient:
    """Asks the server at ``base`` (``http://127.0.0.1:8778``) with ``token``.

    It waits ``timeout`` seconds for each answer.
    """

    def __init__(self, base: str, token: str, timeout: float = TIMEOUT) -> None:
        check_address("--url", base)
        check_token(token)
        self._base = base.rstrip("/")
        self._token = token
        self._timeout = timeout

    @property
    def place(self) -> str:
        """The server asked."""
        return self._base

    def explain(self, body: Json) -> Json:
        """Return the explanation of ``body``; raise :class:`Error` with the server's words."""
        return self._post("explain", body)

    def select(self, body: Json) -> Json:
        """Return the selections for ``body``.

        Raises :class:`NoValidHost` with the funnel in ``extra``, and :class:`Error` else.
        """
        return self._post("select_destinations", body)

    def policies(self) -> list[Json]:
        """Return every scheduler policy; raise :class:`Error` with the server's words."""
        found: list[Json] = self._ask("/scheduler/v1/policies", {})["policies"]
        return found

    def policy(self, name: str) -> Json:
        """Return one scheduler policy; raise :class:`Error` with the server's words."""
        return self._ask(f"/scheduler/v1/policies/{quote(name, safe='')}", {})

    def aggregate_names(self) -> dict[str, str]:
        """Return the names of host aggregates by uuid; none where this caller may not see them."""
        try:
            answer = self._ask(
                "/compute/v2.1/os-aggregates", {"OpenStack-API-Version": "compute 2.41"}
            )
        except Error:
            return {}
        return {one["uuid"]: one["name"] for one in answer["aggregates"]}

    def _post(self, action: str, body: Json) -> Json:
        return self._ask(
            f"/scheduler/v1/{action}",
            {"Content-Type": "application/json"},
            json.dumps(body).encode(),
        )

    def _ask(self, path: str, headers: dict[str, str], body: bytes | None = None) -> Json:
        request = Request(  # noqa: S310 - the scheme was checked
            self._base + path,
            data=body,
            headers={"Accept": "application/json", "X-Auth-Token": self._token, **headers},
        )
        try:
            with urlopen(request, timeout=self._timeout) as answer:  # noqa: S310 - as above
                return _decoded(answer.read(), self._base)
        except HTTPError as refusal:
            raise _error(refusal, self._base) from None
        except UnicodeError:
            raise Invalid(f"--url {self._base}: write it as it is sent, in ASCII") from None
        except TimeoutError:
            raise Unavailable(
                f"{self._base} did not answer within {self._timeout:g} s; it may still be working "
                "on the request: wait longer with --timeout SECONDS"
            ) from None
        except (URLError, HTTPException, OSError) as failure:
            reason = getattr(failure, "reason", failure)
            raise Unavailable(f"{self._base} does not answer: {reason}") from None


def _error(refusal: HTTPError, base: str) -> Error:
    """Return what the server said as an error of ours."""
    try:
        told = json.loads(refusal.read())["errors"][0]
        detail, code = told["detail"], told.get("code", "")
    except (ValueError, LookupError, TypeError):
        return Error(f"{base} answered {refusal.code} {refusal.reason}, which is not its way")
    if code == NoValidHost.code:
        return NoValidHost(detail, extra={"funnel": told.get("funnel")})
    request_id = told.get("request_id")
    return Error(f"{detail} ({refusal.code}{f', {request_id}' if request_id else ''})")


def _decoded(body: bytes, base: str) -> Json:
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise Error(f"{base} did not answer with JSON: is it a server of this kind?")
    return document
