"""Arguments of the tools: argparse, with this project's errors."""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from robotrl.errors import ConfigurationError, unknown_name


class Parser(argparse.ArgumentParser):
    """Raises `ConfigurationError` where argparse would print and exit; option names are never abbreviated."""

    def __init__(self, prog: str, summary: str, epilog: str) -> None:
        super().__init__(
            prog,
            description=summary,
            epilog=epilog,
            add_help=False,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def error(self, message: str) -> NoReturn:
        """A mistake in the arguments."""
        raise ConfigurationError(f"{message}; see '{self.prog} --help'")

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """The arguments; an unknown option is answered with the nearest one."""
        options, rest = self.parse_known_intermixed_args(words)
        if rest:
            if rest[0].startswith("-"):
                known = [option for action in self._actions for option in action.option_strings]
                raise unknown_name(f"option of '{self.prog}'", rest[0].partition("=")[0], [*known, "--help"])
            raise ConfigurationError(f"unexpected argument '{rest[0]}'; see '{self.prog} --help'")
        return options

    def store(self, text: str = "an episode store, or a run directory that has one") -> None:
        """Add the positional STORE."""
        self.add_argument("store", metavar="STORE", type=Path, help=text)

    def episodes(self, text: str) -> None:
        """Add the positional ID… ."""
        self.add_argument("ids", metavar="ID", nargs="+", help=f"{text}: ids, or beginnings that fit only one")

    def json(self) -> None:
        """Add --json."""
        self.add_argument("--json", action="store_true", help="machine-readable output")

    def yes(self) -> None:
        """Add --yes."""
        self.add_argument("--yes", action="store_true", help="do it; without this it only says what it would do")


@dataclass(frozen=True)
class Subcommand:
    """One command of a tool: what it does, its arguments, an example of them, and the function."""

    summary: str
    arguments: Callable[[Parser], None]
    example: str
    run: Callable[[argparse.Namespace], None]


_HELP = ("-h", "--help")


@dataclass(frozen=True)
class Tool:
    """A command line of several commands: its name, what it does, how it is used, remarks, and its commands."""

    name: str
    summary: str
    usage: str
    remarks: str
    commands: Mapping[str, Subcommand]

    def __call__(self, arguments: Sequence[str]) -> None:
        """Run it with these arguments; without any it says what there is."""
        if not arguments or arguments[0] in (*_HELP, "help"):
            print(self._help())
            return
        name, *rest = arguments
        if name not in self.commands:
            raise unknown_name(f"command of 'robotrl {self.name}'", name, self.commands)
        command, call = self.commands[name], f"robotrl {self.name} {name}"
        parser = Parser(call, command.summary, f"example:\n  {call} {command.example}")
        command.arguments(parser)
        if any(word in _HELP for word in rest):
            print(parser.format_help(), end="")
        else:
            command.run(parser.read(rest))

    def _help(self) -> str:
        rows = "\n".join(f"  {name:<10}{command.summary}" for name, command in self.commands.items())
        return (
            f"robotrl {self.name}: {self.summary}\n\nusage: robotrl {self.name} <command> {self.usage}\n\n{rows}\n\n"
            f"{self.remarks}"
        )


def one_of(kind: str, choices: Iterable[str]) -> Callable[[str], str]:
    """An argument type that takes one of `choices`; another word is answered with the nearest."""
    valid = tuple(choices)

    def convert(word: str) -> str:
        if word not in valid:
            raise unknown_name(kind, word, valid)
        return word

    return convert


def whole(least: int) -> Callable[[str], int]:
    """An argument type: a whole number of at least `least`."""

    def convert(word: str) -> int:
        if not word.isdecimal() or int(word) < least:
            raise ConfigurationError(f"'{word}': expected a whole number of at least {least}")
        return int(word)

    return convert


def positive(word: str) -> float:
    """An argument type: a number above 0."""
    try:
        value = float(word)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise ConfigurationError(f"'{word}': expected a number above 0")
    return value


def said(word: str) -> str:
    """An argument type: words, not blanks alone."""
    if not word.strip():
        raise ConfigurationError(f"'{word}': expected some words, got none")
    return word
