"""Time is handed in: a clock returns the current UTC time without a zone."""

from collections.abc import Callable
from datetime import datetime

Clock = Callable[[], datetime]
