"""The one tree of errors that a user can cause or meet.

Raised anywhere, turned into a line and a hint at one boundary for each face: in ``plugin``, in ``cli``, and in the
``command`` of the runner tools and of their routing.
"""

from __future__ import annotations


class SgpuError(Exception):
    """Something the user can act on: what is wrong, where, and what to do about it.

    ``message`` says what and where (``file:line`` first, when there is one) and what was expected;
    ``hint`` says what to do, and may be empty.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        """Give message and hint as they are shown: the hint on a line of its own."""
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


class ConfError(SgpuError):
    """A conf file cannot be read or understood."""


class OptionError(SgpuError):
    """An option or a variable of the caller has a value that makes no sense here."""


class DeviceError(SgpuError):
    """No device, or a mask or selection that names none."""


class ListingError(SgpuError):
    """A suite script did not list its items as the protocol asks."""


class StoreError(SgpuError):
    """The run directory or the weight file cannot be used."""


class WorkerError(SgpuError):
    """A worker cannot be started, or none is left."""
