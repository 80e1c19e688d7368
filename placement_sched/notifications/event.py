"""What happened to a request for hosts: it began, was answered or was refused."""

from dataclasses import dataclass

from placement_sched.errors import Error
from placement_sched.model.request_spec import RequestSpec

START, END, ERROR = "start", "end", "error"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a request was refused: an error's code and its sentence."""

    code: str
    words: str

    @classmethod
    def of(cls, failure: Exception) -> "Reason":
        """Return what may be shown of a failure; of an error that is not ours only the name."""
        if isinstance(failure, Error):
            return cls(failure.code, failure.detail)
        return cls(Error.code, type(failure).__name__)


@dataclass(frozen=True, slots=True)
class Event:
    """A phase of a request, with the reason where it is :data:`ERROR`."""

    phase: str
    spec: RequestSpec
    reason: Reason | None = None

    @property
    def instance_uuid(self) -> str | None:
        """Return the instance in hand: the first one."""
        return self.spec.instance_uuid or next(iter(self.spec.instance_uuids), None)
