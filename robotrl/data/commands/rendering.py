"""`render`: pictures of simulated episodes, made later from the physics that they keep."""

import shlex
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import OmegaConf

from robotrl.data.camera_layers import Renderer, render_layer
from robotrl.data.commands.filters import add_filters, filtered
from robotrl.data.commands.locate import open_store
from robotrl.data.commands.output import hint, pairs
from robotrl.data.commands.parser import Parser, Subcommand, whole
from robotrl.data.corrections import read_corrections
from robotrl.data.names import require_name
from robotrl.errors import ConfigurationError
from robotrl.progress import bar
from robotrl.rundir import read_config
from robotrl.specs import CameraSpec
from robotrl.types import Float64, UInt8

if TYPE_CHECKING:
    from robotrl.parts import Parts


def _arguments(parser: Parser) -> None:
    parser.add_argument("run", metavar="RUN", type=Path, help="a run directory; its configuration names the simulator")
    parser.add_argument("layer", metavar="LAYER", help="name of the camera layer; a new one for another look")
    parser.add_argument("--every", type=whole(1), default=1, help="every so many ticks get a picture (1)")
    add_filters(parser)


def _render(options: Namespace) -> None:
    config = read_config(options.run)
    store = open_store(options.run)
    snapshot = filtered(store.snapshot(), read_corrections(store), options)
    require_name("camera layer", options.layer)
    if not store.spec.cameras:
        raise ConfigurationError(f"{options.run}: the environment has no cameras, so there is nothing to render")
    from robotrl.parts import Parts  # imports PyTorch, which takes seconds

    with bar("render", len(snapshot)) as report:
        renderer = _renderer(Parts(OmegaConf.create(config)), store.spec.cameras, lambda n: report(n, len(snapshot)))
        rendered = render_layer(store, snapshot, options.layer, renderer, every=options.every)
    there = len(snapshot) - rendered
    pairs({"layer": store.root / "cameras" / options.layer, "rendered": rendered, "there before": there or None})
    hint(f"robotrl data ls {shlex.quote(str(options.run))}")


def _renderer(parts: "Parts", cameras: tuple[CameraSpec, ...], report: Callable[[int], None]) -> Renderer:
    """Draws one episode after the other, and reports how many it drew."""
    drawn = 0

    def draw(physics: Float64) -> dict[str, UInt8]:
        nonlocal drawn
        pictures = {camera.name: parts.render(physics, camera) for camera in cameras}
        drawn += 1
        report(drawn)
        return pictures

    return draw


RENDER = Subcommand("make pictures from the physics that episodes keep", _arguments, "runs/mine front-v1", _render)
