"""Names that become file names."""

import re

from robotrl.errors import DataError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def is_name(name: str) -> bool:
    """Whether `name` is safe as a file name."""
    return _NAME.fullmatch(name) is not None


def require_name(kind: str, name: str) -> str:
    """`name` itself, if it is safe as a file name; else `DataError`. `kind` says what it names."""
    if not is_name(name):
        raise DataError(
            f"'{name}' is no valid {kind}: expected 1 to 100 letters, digits, '.', '_' or '-', "
            "beginning with a letter or digit"
        )
    return name
