"""Find the recordings of a run, and open, serve or export them: what `robotrl view` does."""

import os
import shutil
import socket
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from robotrl.data.durable import ensure_directory, storage_errors
from robotrl.errors import ConfigurationError, DataError

LOOPBACK = "127.0.0.1"
"""Recordings show what a robot's cameras and people did: they are served to this machine alone."""


def recordings(run: str | Path) -> tuple[Path, ...]:
    """The finished recordings of a run directory (in its `rerun/`), by name. Raises when there are none."""
    run = Path(run)
    if not run.is_dir():
        parent = run.parent if run.parent.is_dir() else Path("runs")
        near = sorted(p.parent.name for p in parent.glob("*/rerun")) if parent.is_dir() else []
        hint = f" Runs in {parent}: {', '.join(near)}." if near else " Start one with `robotrl improve`."
        raise DataError(f"there is no run directory at {run}.{hint}")
    found = tuple(sorted((run / "rerun").glob("*.rrd")))
    if not found:
        raise DataError(
            f"the run {run} has no recordings: expected .rrd files in {run / 'rerun'}. "
            "They are written during rollouts; see the `view` options in the run's config.yaml"
        )
    return found


def select(found: Sequence[Path], text: str) -> tuple[Path, ...]:
    """The recordings whose file name contains `text` (an outcome, a stage, a seed, the start of an id)."""
    chosen = tuple(path for path in found if text in path.stem)
    if not chosen:
        raise ConfigurationError(f"no recording contains '{text}' in its name. There are: {_names(found)}")
    return chosen


def _names(paths: Sequence[Path], most: int = 12) -> str:
    more = f" and {len(paths) - most} more" if len(paths) > most else ""
    return ", ".join(path.stem for path in paths[:most]) + more


def _rerun(*arguments: str) -> list[str]:
    """A command line of the Rerun that belongs to this Python."""
    import rerun_cli

    binary = Path(rerun_cli.__file__).parent / "rerun"
    # Started directly where it can be: behind `python -m rerun` it outlives the process that we would end.
    program = [str(binary)] if binary.exists() else [sys.executable, "-m", "rerun"]
    return [*program, *arguments]


def viewer_command(paths: Sequence[Path], port: int = 9876) -> list[str]:
    """The command that opens a viewer window on `paths`, detached from this process."""
    options = ("--bind", LOOPBACK, "--port", str(port), "--hide-welcome-screen", "--detach-process")
    return _rerun(*map(str, paths), *options)


def web_command(paths: Sequence[Path], web_port: int = 9090, port: int = 9876) -> list[str]:
    """The command that serves `paths` and a web viewer to this machine only, until it is stopped."""
    # Of a live stream that goes on for days the oldest part is dropped.
    served = ("--serve-web", "--server-memory-limit", "1GiB", "--bind", LOOPBACK)
    return _rerun(*map(str, paths), *served, "--web-viewer-port", str(web_port), "--port", str(port))


def open_viewer(paths: Sequence[Path], port: int = 9876) -> None:
    """Open a viewer window on `paths` and return; the window outlives this process."""
    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        raise ConfigurationError(
            "there is no display for a window: use --web, or write the recording with --export and open it elsewhere"
        )
    _require_whole(paths)
    done = subprocess.run(viewer_command(paths, port), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ConfigurationError(f"the Rerun viewer did not start: {_last_line(done.stderr)}. Use --web instead")


def web_address(web_port: int = 9090, port: int = 9876) -> str:
    """Where a browser on this machine finds what `serve_web` serves."""
    return f"http://{LOOPBACK}:{web_port}?url={quote(stream_address(port), safe='')}"


def stream_address(port: int = 9876) -> str:
    """Where a recording of this machine can be sent to, to be seen at `web_address` while it is made."""
    return f"rerun+http://{LOOPBACK}:{port}/proxy"


def serve_web(paths: Sequence[Path], web_port: int = 9090, port: int = 9876) -> subprocess.Popen[bytes]:
    """Serve `paths`, and what is sent to `stream_address(port)`, at `web_address(web_port, port)`.

    The caller waits for the process and ends it.
    """
    _require_whole(paths)
    for wanted in (web_port, port):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((LOOPBACK, wanted))
            except OSError as error:
                raise ConfigurationError(
                    f"port {wanted} of {LOOPBACK} cannot be used: {error.strerror}; choose another"
                ) from error
    quiet = os.environ | {"RUST_LOG": os.environ.get("RUST_LOG", "warn")}
    return subprocess.Popen(web_command(paths, web_port, port), env=quiet)


def export(paths: Sequence[Path], destination: str | Path) -> Path:
    """Write `paths` into one `.rrd` file, each as its own recording; it appears whole or not at all."""
    destination = Path(destination)
    if destination.suffix != ".rrd":
        raise ConfigurationError(f"export to a file that ends in .rrd, not '{destination}'")
    staged = destination.with_name(destination.name + ".part")
    _require_whole(paths)
    ensure_directory(destination.parent)
    with storage_errors("write", destination):
        if len(paths) == 1:
            shutil.copyfile(paths[0], staged)
        else:
            command = _rerun("rrd", "merge", "--output", str(staged), *map(str, paths))
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise DataError(
                    f"the recordings could not be joined: {_last_line(done.stderr)}; export them one by one"
                )
        staged.replace(destination)
    return destination


def _require_whole(paths: Sequence[Path]) -> None:
    """Raise on a damaged recording, which Rerun would show in part and call it all."""
    from rerun.chunk import RrdReader  # seconds to import: a mistyped path is answered before

    for path in paths:
        try:
            with warnings.catch_warnings(action="ignore"):  # of a missing index: the error says it better
                RrdReader(path).recordings()
        except RuntimeError as error:
            raise DataError(
                f"the recording {path} is damaged: {error}. Delete it; the episode itself is in the store"
            ) from error


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it gave no message"
