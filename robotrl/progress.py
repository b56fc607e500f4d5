"""What a person sees while work goes on: a bar with rate and remaining time on a terminal, nothing elsewhere."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text
from rich.theme import Theme

console = Console(
    theme=Theme({"progress.elapsed": "dim", "progress.remaining": "dim"}), highlight=False, soft_wrap=True
)

Report = Callable[[int, int], None]
"""Called with (done, total)."""


class _Rate(TextColumn):
    """Items a second since the bar began."""

    def render(self, task: "object") -> Text:
        """The rate, or nothing before the first item."""
        speed = getattr(task, "speed", None)
        return Text(f"{speed:,.1f}/s" if speed else "", style="dim")


@contextmanager
def bar(description: str, total: int) -> Generator[Report]:
    """A progress bar of `total` items; yields the function that moves it. Silent on anything but a terminal."""
    columns = (
        TextColumn("  {task.description:<34}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        _Rate(""),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(description, total=total)

        def report(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        yield report


def say(text: str) -> None:
    """One line for the person at the terminal; rich markup is allowed."""
    console.print(text)
