"""The arrows of docs/architecture.md: who may import whom, lazy imports included."""

from graphlib import TopologicalSorter

import grimp
import pytest

SIBLINGS = ("sim", "policies", "world_models", "teleop")


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("robotrl", *SIBLINGS, include_external_packages=False, cache_dir=None)


def package(module: str) -> str:
    return module.partition(".")[0]


def test_the_core_imports_no_sibling_and_siblings_never_each_other(graph):
    edges = {(m, d) for m in graph.modules for d in graph.find_modules_directly_imported_by(m)}
    crossing = {(m, d) for m, d in edges if package(m) != package(d)}
    assert {(m, d) for m, d in crossing if package(d) != "robotrl"} == set()


def test_there_is_no_import_cycle(graph):
    TopologicalSorter({m: graph.find_modules_directly_imported_by(m) for m in graph.modules}).prepare()


def test_only_one_module_steps_environments(graph):
    """`Environment.step` has one caller in the core: the loop."""
    from pathlib import Path

    root = Path(__file__).parent.parent / "robotrl"
    callers = [p.name for p in root.rglob("*.py") if "environment.step(" in p.read_text()]
    assert callers == ["loop.py"]
