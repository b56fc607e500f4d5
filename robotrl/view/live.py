"""A world while it moves: in the browser, tick by tick, or into a recording."""

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import rerun as rr
import rerun.blueprint as rrb
import simplejpeg

from robotrl.data.durable import ensure_directory, storage_errors
from robotrl.errors import ConfigurationError
from robotrl.specs import EnvironmentSpec
from robotrl.types import Float64, UInt8
from robotrl.view.blueprint import scene_view
from robotrl.view.open import serve_web, stream_address, web_address
from robotrl.view.rerun_cameras import JPEG_QUALITY, camera_path
from robotrl.view.rerun_scene import log_pose, log_shapes
from robotrl.view.rerun_sink import application


class LiveView:
    """Shows one world at its ticks; a context manager.

    Args:
        spec: what the world promises. Its scene is shown or, where it tells none, the pictures of its cameras.
        path: a new file that ends in `.rrd`; None serves a browser on this machine.
        web_port, port: of the page, and of what the page listens to.

    Attributes:
        address: of the page, or the file.
    """

    def __init__(self, spec: EnvironmentSpec, path: Path | None = None, web_port: int = 9090, port: int = 9876) -> None:
        self._spec, self._path, self._server, self._tick = spec, path, None, 0
        self._recording = rr.RecordingStream(f"{application(spec)}-live")
        if not self._recording.is_enabled():
            raise ConfigurationError("Rerun is switched off by the environment variable RERUN=off; unset it")
        if path is None:
            self._server = serve_web((), web_port, port)
            self._recording.connect_grpc(stream_address(port), default_blueprint=_blueprint(spec))
            self.address = web_address(web_port, port)
        else:
            if path.suffix != ".rrd":
                raise ConfigurationError(f"export to a file that ends in .rrd, not '{path}'")
            ensure_directory(path.parent)
            with storage_errors("write", path):
                path.touch()  # Rerun would hide why a file cannot be made
            self._recording.save(path, default_blueprint=_blueprint(spec))
            self.address = str(path)
        log_shapes(self._recording, spec.scene)
        self._stamp()

    def say(self, text: str, level: str = "INFO") -> None:
        """A line of the log, at the present tick."""
        self._recording.log("happenings", rr.TextLog(text, level=level))

    def show(self, physics: Float64, values: Mapping[str, float], images: Mapping[str, UInt8]) -> None:
        """The next tick: the state (X,), plotted values such as the reward, and pictures (H, W, 3) of cameras."""
        self._tick += 1
        self._stamp()
        if self._spec.scene.frames:
            log_pose(self._recording, self._spec.scene, physics)
        for name, value in values.items():
            self._recording.log(["progress", name], rr.Scalars(value))
        for name, image in images.items():
            blob = simplejpeg.encode_jpeg(image, quality=JPEG_QUALITY)
            self._recording.log(camera_path(name), rr.EncodedImage(contents=blob, media_type="image/jpeg"))

    def _stamp(self) -> None:
        """What is logged from here on belongs to the present tick."""
        self._recording.set_time("tick", sequence=self._tick)
        self._recording.set_time("time", duration=self._tick / self._spec.control_hz)

    def __enter__(self) -> "LiveView":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._recording.flush(timeout_sec=5.0)
        self._recording.disconnect()
        if self._server is not None:
            self._server.terminate()
            self._server.wait(10)


def _blueprint(spec: EnvironmentSpec) -> rrb.Blueprint:
    """The scene or the cameras on the left, progress and words on the right."""
    cameras = [rrb.Spatial2DView(origin=camera_path(c.name), name=c.name) for c in spec.cameras]
    left = scene_view() if spec.scene.frames or not cameras else rrb.Tabs(*cameras)
    right = rrb.Vertical(
        rrb.TimeSeriesView(origin="/progress", name="Reward and checkpoints"),
        rrb.TextLogView(origin="/happenings", name="What happened"),
        row_shares=[3, 2],
    )
    panel = rrb.TimePanel(timeline="time", state="collapsed", play_state="following")
    return rrb.Blueprint(rrb.Horizontal(left, right, column_shares=[3, 2]), panel, collapse_panels=True)
