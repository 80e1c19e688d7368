# SPDX-License-Identifier: Apache-2.0
"""Events of a scheduling request: started, completed or failed."""

from dataclasses import dataclass

from placement_sched.errors import Error
from placement_sched.model.request_spec import RequestSpec

START, END, ERROR = "start", "end", "error"


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason why a request failed: an error code and a message."""

    code: str
    words: str

    @classmethod
    def of(cls, failure: Exception) -> "Reason":
        """Describe a failure for the public: of foreign errors only the class name."""
        if isinstance(failure, Error):
            return cls(failure.code, failure.detail)
        return cls(Error.code, type(failure).__name__)


@dataclass(frozen=True, slots=True)
class Event:
    """A phase of a request, with a reason if it is :data:`ERROR`."""

    phase: str
    spec: RequestSpec
    reason: Reason | None = None

    @property
    def instance_uuid(self) -> str | None:
        """Return the uuid of the first instance."""
        return self.spec.instance_uuid or next(iter(self.spec.instance_uuids), None)
