"""The command line: `robotrl <command> [name=value ...]`.

A command is a configuration file of the same name in `configs/` and a function; `robotrl data` is a set of tools that
take paths and options instead. Errors a user can act on are
printed without a traceback and end with exit code 2; Ctrl-C ends with 130 and says how to go on.
"""

import errno
import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from omegaconf import OmegaConf

from robotrl import __version__
from robotrl.configuration import compose_config, described, group_choices, sweep, with_run_values
from robotrl.errors import RobotRLError, unknown_name


@dataclass(frozen=True)
class _Command:
    function: str  # "module:function", imported only when it is called
    summary: str
    example: str
    usage: str = "[RUN] [name=value ...]"


COMMANDS = {
    "improve": _Command("robotrl.commands:improve", "the whole loop: demonstrations to a better policy", "task=insert"),
    "collect": _Command("robotrl.commands:collect", "record expert demonstrations into a run's store", "episodes=50"),
    "train": _Command("robotrl.commands:train", "train a policy on a run's store", "run=runs/mine updates=2000"),
    "evaluate": _Command(
        "robotrl.commands:evaluate",
        "measure a policy's success on named seeds",
        "runs/mine version=2",
        "[RUN] [--video] [name=value ...]",
    ),
    "branch": _Command(
        "robotrl.commands:branch",
        "go on from the middle of a stored episode",
        "runs/mine episode=3f2a tick=80 by=expert",
    ),
    "label": _Command("robotrl.commands:label", "fit the critic and write annotation columns", "run=runs/mine"),
    "view": _Command(
        "robotrl.view.commands:view",
        "open a run's episodes in Rerun",
        "runs/mine --web",
        "RUN [--web | --export FILE.rrd] [episode=TEXT]",
    ),
    "report": _Command("robotrl.view.commands:report", "write report.html from a run's event log", "runs/mine", "RUN"),
    "doctor": _Command(
        "robotrl.doctor:doctor", "check this machine: packages, physics, rendering, disk", "", "[run=FOLDER]"
    ),
}

TOOLS = {
    "sim": _Command("sim.commands:sim", "list the tasks in simulation, and play one in the browser", "play insert"),
    "data": _Command("robotrl.data.commands.main:data", "look at, check and change episode stores", "ls runs/mine"),
}
"""Commands about files, with arguments of their own instead of a configuration."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code: 0 done, 2 a mistake to put right, 130 interrupted."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(arguments)
    except RobotRLError as error:
        print(f"error: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("\ninterrupted: everything committed is safe; the same command goes on from there", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EACCES, errno.EFBIG):
            raise
        print(f"error: cannot write {error.filename or 'a file'}: {error.strerror}. Free space or choose another "
              "folder with run=PATH; everything committed is safe.", file=sys.stderr)  # fmt: skip
    return 2


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_usage())
        return 0
    if arguments[0] in ("-V", "--version"):
        print(f"robotrl {__version__}")
        return 0
    name, rest = arguments[0], arguments[1:]
    if name in TOOLS:
        _load(TOOLS[name])(rest)
        return 0
    if name not in COMMANDS:
        raise unknown_name("command", name, {**COMMANDS, **TOOLS})
    overrides, flags = _parse(name, rest)
    if "help" in flags:
        print(_command_help(name))
        return 0
    if "multirun" in flags:
        return _multirun(name, overrides)
    config = compose_config(name, overrides)
    if name != "improve" and not OmegaConf.is_missing(config, "run"):
        config = with_run_values(config, overrides)
    if "cfg" in flags:
        print(OmegaConf.to_yaml(config), end="")
        return 0
    if missing := OmegaConf.missing_keys(config):
        wanted = " ".join(f"{key}=…" for key in config if key in missing)
        raise RobotRLError(f"robotrl {name} needs {wanted}; robotrl {name} --help says what they are")
    _load(COMMANDS[name])(config)
    return 0


def _load(command: _Command) -> Callable[..., None]:
    module, function = command.function.split(":")
    return getattr(importlib.import_module(module), function)


def _parse(name: str, arguments: Sequence[str]) -> tuple[list[str], set[str]]:
    """Overrides and flags. A bare word is the run directory; `--export PATH` and `--video` are overrides too."""
    overrides: list[str] = []
    flags: set[str] = set()
    rest = iter(arguments)
    for word in rest:
        if word in ("-h", "--help"):
            flags.add("help")
        elif word in ("-m", "--multirun"):
            flags.add("multirun")
        elif word == "--cfg":
            flags.add("cfg")
            if next(rest, "job") != "job":
                raise RobotRLError("--cfg takes one value, 'job': it prints the configuration")
        elif word == "--export":
            overrides.append(f"export={next(rest, '')}")
        elif word in ("--web", "--video"):
            overrides.append(f"{word[2:]}=true")
        elif word.startswith("-"):
            raise unknown_name(
                f"flag of 'robotrl {name}'", word, ["--help", "--cfg", "-m", "--web", "--export", "--video"]
            )
        elif word.startswith("episode="):
            # An id is text even where its digits read as a number, such as 12e4.
            value = word.removeprefix("episode=").strip("'\"")
            overrides.append(word if value == "null" else f"episode='{value}'")
        else:
            overrides.append(word if "=" in word or word.startswith(("+", "~")) else f"run={word}")
    return overrides, flags


def _multirun(name: str, overrides: Sequence[str]) -> int:
    """Run every combination in a process of its own, one after another; its run directory is named after it."""
    worst = 0
    for combination in sweep(overrides):
        print(f"--- robotrl {name} {' '.join(combination)}", flush=True)
        worst = max(
            worst, subprocess.run([sys.executable, "-m", "robotrl.cli", name, *combination], check=False).returncode
        )
    return worst


def _usage() -> str:
    rows = "\n".join(f"  {name:<10}{command.summary}" for name, command in {**COMMANDS, **TOOLS}.items())
    return (
        f"robotrl {__version__}: closes the loop on a robot policy\n\n"
        f"usage: robotrl <command> [name=value ...]\n\n{rows}\n\n"
        "  robotrl <command> --help      its options and their values\n"
        "  robotrl <command> --cfg job   print the configuration and stop\n"
        "  robotrl <command> -m a=1,2    run every combination\n"
        "  robotrl data, robotrl sim     their commands, which take paths\n\nstart with: robotrl improve"
    )


def _command_help(name: str) -> str:
    command = COMMANDS[name]
    config = compose_config(name, [])
    groups = [str(key) for key in config if group_choices(str(key))] + ["profile"] * ("profile_name" in config)
    parts = "".join(f"  {group}={'|'.join(group_choices(group))}\n" for group in groups)
    chosen = f"\nparts to choose, each with options of its own (--cfg job prints them all):\n{parts}" if parts else ""
    example = f"robotrl {name} {command.example}".rstrip()
    return (
        f"robotrl {name}: {command.summary}\n\nusage: robotrl {name} {command.usage}\nexample: {example}\n\n"
        f"options, with their default values:\n{described(name)}{chosen}\n"
        "RUN alone is short for run=RUN; -m a=1,2 runs every combination; --cfg job prints the configuration and stops"
    )


if __name__ == "__main__":
    sys.exit(main())
