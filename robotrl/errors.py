"""Errors that a user can act on.

Every one of them is printed by the command line as one message without a traceback, and ends the
process with exit code 2. The message says what was expected, what came, and what to do.
"""

import difflib
from collections.abc import Iterable

_LISTED = 24
_NEAR = 4


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


def unknown_name(kind: str, name: str, valid: Iterable[str], where: str = "") -> ConfigurationError:
    """The error for a name that does not exist; it quotes the nearest valid one, and all of a short list.

    `where` says, after the number of a long list, what shows it whole.
    """
    choices = sorted(valid)
    near = difflib.get_close_matches(name, choices, n=_NEAR, cutoff=0.4)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    if len(choices) > _LISTED:
        others = f" Near it are also {', '.join(near[1:])}." if near[1:] else ""
        return ConfigurationError(f"no {kind} is called '{name}'.{hint}{others} There are {len(choices)}{where}.")
    listed = f"Valid: {', '.join(choices)}." if choices else "There is none."
    return ConfigurationError(f"no {kind} is called '{name}'.{hint} {listed}")
