"""Packages of the extra `suites`, imported when a task of theirs is asked for."""

import importlib
from typing import Any

from robotrl.errors import ConfigurationError


def suite_module(name: str) -> Any:
    """The module called `name`, typed as anything: suites carry no types to rely on."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or name
        raise ConfigurationError(f"package '{missing}' is not installed: pip install 'robotrl[suites]'") from error
