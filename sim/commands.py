"""`robotrl sim`: which tasks there are, and a look at one in motion."""

from argparse import Namespace

from robotrl.configuration import compose_config
from robotrl.errors import ConfigurationError, unknown_name
from robotrl.parts import Parts
from robotrl.terminal.output import as_json, hint, table
from robotrl.terminal.parser import Parser, Subcommand, Tool
from sim.experts.base import GUIDES
from sim.play import PLAY
from sim.suites.catalogue import SUITES
from sim.tasks import PAIRS


def _arguments(parser: Parser) -> None:
    parser.add_argument("suite", metavar="SUITE", nargs="?", help=f"list its tasks instead: {', '.join(SUITES)}")
    parser.json()


def _ls(options: Namespace) -> None:
    if options.suite is None:
        _ls_all(options.json)
    elif options.suite not in SUITES:
        raise unknown_name("suite", options.suite, SUITES)
    else:
        _ls_suite(options.suite, options.json)


def _ls_all(json: bool) -> None:
    """The own tasks with each of their robots, and the suites."""
    own = [_described(task, robot) for task, robot in PAIRS]
    suites = [{"task": f"suites/{name}", "summary": suite.summary} for name, suite in SUITES.items()]
    if json:
        as_json({"tasks": own, "suites": suites})
        return
    table([name.replace("_", " ") for name in own[0]], ([_cell(value) for value in row.values()] for row in own))
    print()
    table(("task", "of others"), (list(suite.values()) for suite in suites))
    print()
    hint("robotrl sim play sort")
    hint("robotrl sim ls metaworld")


def _ls_suite(name: str, json: bool) -> None:
    """The tasks of one suite."""
    listed = SUITES[name].tasks
    if listed is None:
        raise ConfigurationError(f"suites/{name} has no list: {SUITES[name].summary}, by task.name=NAME")
    found = sorted(listed())
    if json:
        as_json(found)
        return
    for task in found:
        print(f"  {task}")
    print()
    hint(f"robotrl sim play suites/{name} task.name={found[0]}")


def _described(task: str, robot: str) -> dict[str, object]:
    """One row: an own task on a robot."""
    spec = Parts(compose_config("play", [f"task={task}", f"task.robot={robot}"])).spec
    return {
        "task": task,
        "robot": robot,
        "control_hz": spec.control_hz,
        "time_limit_s": spec.horizon / spec.control_hz,
        "state": spec.state.size,
        "action": spec.action.size,
        "instructions": len(spec.instructions),
        "expert": task in GUIDES,
        "checkpoints": spec.checkpoints,
    }


def _cell(value: object) -> object:
    """How a value stands in the table."""
    if isinstance(value, bool):
        return "yes" if value else "-"
    if isinstance(value, float):
        return f"{value:g}"
    return " ".join(value) if isinstance(value, tuple) else value


sim = Tool(
    name="sim",
    summary="tasks in simulation: lists them, and plays one before your eyes",
    usage="...",
    remarks="  robotrl sim <command> --help   its arguments\n\nstart with: robotrl sim play insert",
    commands={
        "ls": Subcommand("list the tasks, or those of a suite", _arguments, "metaworld", _ls),
        "play": PLAY,
    },
)
"""`robotrl sim`."""
