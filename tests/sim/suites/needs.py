"""Marks of tests that need an outside suite."""

import importlib.util

import pytest


def needs(package: str) -> list[pytest.MarkDecorator]:
    """For `pytestmark`: the mark `suites`, and a skip where `package` is not installed."""
    missing = importlib.util.find_spec(package) is None
    return [pytest.mark.suites, pytest.mark.skipif(missing, reason=f"'{package}' comes with the extra 'suites'")]
