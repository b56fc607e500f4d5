import sys
from pathlib import Path

import numpy as np
import pytest

from robotrl.errors import ConfigurationError, DataError, RobotRLError
from robotrl.view.video import write_video

FRAMES = np.tile(np.linspace(0, 255, 64, dtype=np.uint8)[None, None, :, None], (12, 49, 1, 3))


def test_a_video_has_every_frame_at_its_rate_and_even_sides(tmp_path: Path) -> None:
    av = pytest.importorskip("av")
    path = write_video(FRAMES, tmp_path / "new" / "episode.mp4", 20.0)
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert (stream.width, stream.height, stream.average_rate) == (64, 48, 20)
        decoded = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert len(decoded) == 12
    assert np.abs(decoded[5].astype(int) - FRAMES[5, :48]).mean() < 6
    assert [p.name for p in path.parent.iterdir()] == ["episode.mp4"]


@pytest.mark.parametrize("frames", [FRAMES[:0], FRAMES[0], FRAMES.astype(np.float32), FRAMES[:, :1], FRAMES[..., :2]])
def test_frames_of_another_shape_or_type_are_refused(tmp_path: Path, frames: np.ndarray) -> None:
    with pytest.raises(DataError, match=r"expected frames \(T, H, W, 3\) uint8"):
        write_video(frames, tmp_path / "no.mp4", 20.0)


@pytest.mark.parametrize("fps", [0.0, -1.0, float("nan")])
def test_a_rate_that_is_not_positive_is_refused(tmp_path: Path, fps: float) -> None:
    with pytest.raises(ConfigurationError, match="positive"):
        write_video(FRAMES, tmp_path / "no.mp4", fps)


def test_without_pyav_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'robotrl\[video\]'"):
        write_video(FRAMES, tmp_path / "no.mp4", 20.0)


def test_a_video_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RobotRLError, match="file"):
        write_video(FRAMES, tmp_path / "file" / "no.mp4", 20.0)
