"""Packages that only the exchange of data needs, imported where they are used."""

from importlib import import_module
from typing import Any

from robotrl.errors import ConfigurationError


def require_module(name: str, extra: str) -> Any:
    """The module called `name`; `ConfigurationError` says which extra of robotrl brings it when it is missing."""
    try:
        return import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise ConfigurationError(
            f"this needs the package '{package}' ({error}): install it with `pip install 'robotrl[{extra}]'`"
        ) from error
