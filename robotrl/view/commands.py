"""`robotrl view` and `robotrl report`: they need neither physics nor networks, and so start at once."""

from pathlib import Path

from omegaconf import DictConfig

from robotrl.progress import say
from robotrl.view import open as opening
from robotrl.view.from_events import report_of
from robotrl.view.report import write_report


def view(config: DictConfig) -> None:
    """Open, serve or export a run's recordings."""
    found = opening.recordings(config.run)
    found = found if config.episode is None else opening.select(found, config.episode)
    if config.export is not None:
        say(f"  wrote {opening.export(found, config.export)}")
    elif config.web:
        server = opening.serve_web(found)
        say(f"  {opening.web_address()}\n  Ctrl-C ends it")
        try:
            server.wait()
        finally:
            server.terminate()
    else:
        opening.open_viewer(found)


def report(config: DictConfig) -> None:
    """Write report.html again from the event log."""
    run = Path(config.run)
    say(f"  report  {write_report(run / 'report.html', report_of(run))}")
