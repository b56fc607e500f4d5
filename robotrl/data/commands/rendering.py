"""`render`: pictures of simulated episodes, made later from the physics that they keep."""

import os
import shlex
from argparse import Namespace
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path

from omegaconf import OmegaConf

from robotrl.data.camera_layers import render_layer
from robotrl.data.commands.filters import add_filters, filtered
from robotrl.data.commands.locate import open_store
from robotrl.data.corrections import read_corrections
from robotrl.data.names import require_name
from robotrl.errors import ConfigurationError
from robotrl.progress import bar
from robotrl.rundir import read_config
from robotrl.specs import CameraSpec
from robotrl.terminal.output import hint, pairs
from robotrl.terminal.parser import Parser, Subcommand, whole

_WORTH_A_PROCESS = 16
"""Episodes that take longer to draw than a process takes to start."""


@dataclass(frozen=True)
class _Job:
    """What a process must know to render episodes of a run into a layer."""

    run: Path
    layer: str
    cameras: tuple[CameraSpec, ...]
    every: int


class _Painter:
    """Renders episodes, all with the same graphics contexts, one a camera."""

    def __init__(self, job: _Job) -> None:
        from robotrl.parts import Parts  # imports PyTorch, which takes seconds

        self._job, self._store = job, open_store(job.run)
        self._snapshot = self._store.snapshot()
        self._drawer = Parts(OmegaConf.create(read_config(job.run))).drawer(job.cameras)
        ours, stored = self._drawer.spec, self._store.spec
        if (ours.physics_size, ours.privileged) != (stored.physics_size, stored.privileged):
            raise ConfigurationError(
                f"{job.run}: its configuration builds another scene than the episodes were recorded in: expected "
                f"{stored.physics_size} numbers of physics and privileged {stored.privileged.elements}, got "
                f"{ours.physics_size} and {ours.privileged.elements}; render with the version that recorded them"
            )

    def paint(self, episode_id: str) -> int:
        """Render the episode; 0 when it was there before, 1 otherwise."""
        job, chosen = self._job, self._snapshot.select([episode_id])
        return render_layer(self._store, chosen, job.layer, job.cameras, self._drawer.draw, every=job.every)

    def close(self) -> None:
        """Free the graphics contexts."""
        self._drawer.close()


_painter = lru_cache(1)(_Painter)
"""That of a worker process. It is opened with the first episode, so that its errors come back as those of a call."""


def _paint(job: _Job, episode_id: str) -> int:
    return _painter(job).paint(episode_id)


def _arguments(parser: Parser) -> None:
    parser.add_argument("run", metavar="RUN", type=Path, help="a run directory; its configuration names the simulator")
    parser.add_argument("layer", metavar="LAYER", help="name of the camera layer; a new one for another look")
    parser.add_argument("--every", type=whole(1), default=1, help="every so many ticks get a picture (1)")
    parser.add_argument("--camera", action="append", help="a camera of the scene, may be repeated (those of the run)")
    parser.add_argument("--height", type=whole(1), help="of the pictures in pixels (as the run has it)")
    parser.add_argument("--width", type=whole(1), help="of the pictures in pixels (as the run has it)")
    parser.add_argument("--profile", help="visual profile, full or fast (as the run has it)")
    parser.add_argument("--workers", type=whole(1), help="processes that draw (for many episodes one a core)")
    add_filters(parser)


def _render(options: Namespace) -> None:
    store = open_store(options.run)
    read_config(options.run)  # a store without a run cannot be rendered
    snapshot = filtered(store.snapshot(), read_corrections(store), options)
    job = _Job(
        options.run, require_name("camera layer", options.layer), _cameras(options, store.spec.cameras), options.every
    )
    painter = _Painter(job)  # finds mistakes before anything is drawn
    few = 1 + len(snapshot) // _WORTH_A_PROCESS
    workers = min(options.workers or min(few, len(os.sched_getaffinity(0))), len(snapshot))
    rendered = 0
    try:
        with bar("render", len(snapshot)) as report:
            one_by_one = map(painter.paint, snapshot.ids)
            for done, new in enumerate(one_by_one if workers <= 1 else _in_parallel(job, snapshot.ids, workers), 1):
                rendered += new
                report(done, len(snapshot))
    finally:
        painter.close()
    there = len(snapshot) - rendered
    pairs({"layer": store.root / "cameras" / options.layer, "rendered": rendered, "there before": there or None})
    hint(f"robotrl data ls {shlex.quote(str(options.run))}")


def _cameras(options: Namespace, stored: tuple[CameraSpec, ...]) -> tuple[CameraSpec, ...]:
    """The run's cameras, or those that were named, with the size and profile that were asked for."""
    asked = {name: getattr(options, name) for name in ("height", "width", "profile")}
    changes = {name: value for name, value in asked.items() if value is not None}
    known = {camera.name: camera for camera in stored}
    names = list(dict.fromkeys(options.camera or known))
    if not names:
        raise ConfigurationError(f"{options.run}: the environment has no cameras: name one with --camera")
    new = [name for name in names if name not in known]
    if new and not {"height", "width"} <= changes.keys():
        raise ConfigurationError(
            f"camera '{new[0]}' is not one of the run's ({', '.join(known)}): give --height and --width"
        )
    return tuple(replace(known.get(name, CameraSpec(name, 0, 0)), **changes) for name in names)


def _in_parallel(job: _Job, ids: tuple[str, ...], workers: int) -> Iterator[int]:
    """What `paint` returns for each episode, as they are done. OpenGL survives no fork, so processes start afresh."""
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    try:
        for future in as_completed([pool.submit(_paint, job, episode_id) for episode_id in ids]):
            yield future.result()
    except BrokenProcessPool as error:
        raise ConfigurationError(
            "a process that draws was killed, perhaps for want of memory: what was rendered stays; repeat the command "
            "with a smaller --workers"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


RENDER = Subcommand("make pictures from the physics that episodes keep", _arguments, "runs/mine front-v1", _render)
