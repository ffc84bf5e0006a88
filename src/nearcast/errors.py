"""The error tree of nearcast: what a user can cause and what to do about it.

::

    NearcastError
    ├── ScenarioError (ValueError)   a scenario, an import or a table is wrong
    ├── PlanError (ValueError)       a plan does not fit its scenario
    ├── AreaError (ValueError)       an area of interest or a road network is wrong
    ├── FilterError (ValueError)     a content filter or an attribute is wrong
    ├── ConfigError (ValueError)     an option or a setting is wrong
    ├── OutputError                  an output cannot be written
    ├── PipelineError                Spark cannot start, or a stage of it failed
    ├── SpoolError                   the durable spool cannot be used; nothing was acknowledged
    │   ├── SpoolFullError           no room on the disk; the same commit may be tried again
    │   └── SpoolLostError           a write or sync failed; only a restart may go on
    ├── RestartNeededError           a server had to end or could not start; another start may help
    ├── ProcessorError               a message processor is unknown or cannot be loaded
    ├── TrustError                   a credential or a signature does not count
    ├── WireError (ValueError)       a message cannot be sent
    └── PlanningError                no plan can be made
        └── SolverError              the MILP solver failed
"""

from __future__ import annotations

import errno

__all__ = [
    "NO_ROOM",
    "AreaError",
    "ConfigError",
    "FilterError",
    "NearcastError",
    "OutputError",
    "PipelineError",
    "PlanError",
    "PlanningError",
    "ProcessorError",
    "RestartNeededError",
    "ScenarioError",
    "SolverError",
    "SpoolError",
    "SpoolFullError",
    "SpoolLostError",
    "TrustError",
    "WireError",
]

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Codes of an OSError that say that a disk, or a user's part of it, is full."""


class NearcastError(Exception):
    """Base of every error that nearcast raises on purpose; the command line exits with 2."""


class _LocatedError(NearcastError, ValueError):
    """An error in a user's input that knows where it is."""

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        row: int | None = None,
        column: str | None = None,
    ) -> None:
        self.file = file
        self.row = row
        """Row of data, counted from 1, the header not counted."""
        self.column = column
        place = [file] if file else []
        if row is not None:
            place.append(f"row {row}")
        if column is not None:
            place.append(f"column {column!r}")
        super().__init__(f"{', '.join(place)}: {message}" if place else message)


class ScenarioError(_LocatedError):
    """A scenario, or a file to import one from, is missing, unreadable or contradicts itself."""


class PlanError(_LocatedError):
    """A plan is unreadable or does not fit the scenario it is applied to."""


class AreaError(NearcastError, ValueError):
    """An area of interest, a position or a road network cannot be used, and why."""


class FilterError(NearcastError, ValueError):
    """A content filter or an attribute cannot be used, and why.

    Parameters
    ----------
    position
        Where in the text of the filter, counted from 1; None for an attribute.
    """

    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message if position is None else f"character {position}: {message}")
        self.position = position


class ConfigError(NearcastError, ValueError):
    """An option has a value that cannot be used."""


class OutputError(NearcastError):
    """An output exists already or cannot be written; nothing was written."""


class PipelineError(NearcastError):
    """Spark cannot start, cannot be reached, or a stage of the pipeline failed."""


class TrustError(NearcastError):
    """A credential or another signed document does not count here, and why.

    Parameters
    ----------
    reason
        For counters: ``not_signed``, ``other_key``, ``expired`` or ``revoked``.
    """

    def __init__(self, message: str, reason: str = "not_signed") -> None:
        super().__init__(message)
        self.reason = reason


class WireError(NearcastError, ValueError):
    """A message cannot be sent: too large, malformed, or more than the other side takes."""


class PlanningError(NearcastError):
    """No plan can be made from this request: the method does not fit the model, say."""


class SolverError(PlanningError):
    """The MILP solver stopped for a reason other than a limit."""


class SpoolError(NearcastError):
    """The durable spool cannot be opened or written; what was queued is not acknowledged."""


class SpoolFullError(SpoolError):
    """The disk has no room; nothing of this commit counts, and it may be tried again later."""


class SpoolLostError(SpoolError):
    """A write or sync failed: what the file holds is unknown until a restart recovers it."""


class RestartNeededError(NearcastError):
    """A server had to end or could not start; its supervisor should start it again."""


class ProcessorError(NearcastError):
    """A message processor is unknown, cannot be loaded, or refuses its options."""
