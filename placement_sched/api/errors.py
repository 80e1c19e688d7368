"""THE table: which domain exception is which HTTP status."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from types import MappingProxyType

from placement_sched import errors
from placement_sched.api.auth import Unauthorized
from placement_sched.api.microversion import NotAcceptable


class UnsupportedMediaType(errors.Error):
    """The body is of a content type that the route does not take."""


class MethodNotAllowed(errors.Error):
    """The path is served, but not with this method; ``allowed`` are those for the header Allow."""

    def __init__(self, detail: str, allowed: Sequence[str] = ()) -> None:
        super().__init__(detail)
        self.allowed = tuple(allowed)


class TooLarge(errors.Error):
    """The body is larger than the configured size."""


STATUSES: Mapping[type[errors.Error], HTTPStatus] = MappingProxyType(
    {
        errors.Invalid: HTTPStatus.BAD_REQUEST,
        Unauthorized: HTTPStatus.UNAUTHORIZED,
        errors.Forbidden: HTTPStatus.FORBIDDEN,
        errors.NotFound: HTTPStatus.NOT_FOUND,
        MethodNotAllowed: HTTPStatus.METHOD_NOT_ALLOWED,
        NotAcceptable: HTTPStatus.NOT_ACCEPTABLE,
        errors.Conflict: HTTPStatus.CONFLICT,
        TooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        errors.TooMuch: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        UnsupportedMediaType: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        errors.NotKnown: HTTPStatus.NOT_IMPLEMENTED,
        errors.PluginFailed: HTTPStatus.INTERNAL_SERVER_ERROR,
        errors.ConfigurationError: HTTPStatus.INTERNAL_SERVER_ERROR,
        errors.Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    }
)


#: What is said of a path that is not served.
NOT_FOUND = "The resource could not be found."
#: Seconds after which it is worth while to ask again, when the database did not answer (503).
RETRY_AFTER = 1


def status_of(error: errors.Error) -> HTTPStatus:
    """Return the HTTP status of ``error``: that of the nearest class in the table."""
    kinds = (STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)
    return next(kinds, HTTPStatus.INTERNAL_SERVER_ERROR)
