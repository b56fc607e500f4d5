"""Errors that a user can act on.

Every one of them is printed by the command line as one message without a traceback, and ends the
process with exit code 2. The message says what was expected, what came, and what to do.
"""

import difflib
from collections.abc import Iterable

_LISTED = 40


class RobotRLError(Exception):
    """Something the user can put right: a bad name, a damaged file, a full disk."""


class ConfigurationError(RobotRLError):
    """A configuration value that cannot be served."""


class DataError(RobotRLError):
    """A stored file that is damaged, incomplete or of another task."""


class StorageError(RobotRLError):
    """A file or directory that cannot be read or written: a full disk, missing permission, a file in its place."""


class RunBusyError(RobotRLError):
    """Another process holds the run directory."""


def unknown_name(kind: str, name: str, valid: Iterable[str]) -> ConfigurationError:
    """The error for a name that does not exist; it quotes the nearest valid one."""
    choices = sorted(valid)
    near = difflib.get_close_matches(name, choices, n=1, cutoff=0.4)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    more = f", and {len(choices) - _LISTED} more" if len(choices) > _LISTED else ""
    listed = f"Valid: {', '.join(choices[:_LISTED])}{more}." if choices else "There is none."
    return ConfigurationError(f"no {kind} is called '{name}'.{hint} {listed}")
