"""The pictures of an episode's cameras in its Rerun recording."""

import rerun as rr
import simplejpeg

from robotrl.types import CameraFrames
from robotrl.view.rerun_time import Timeline

JPEG_QUALITY = 85


def camera_path(name: str) -> str:
    """Where the pictures of the camera `name` are."""
    return rr.new_entity_path(["cameras", name])


def log_camera(recording: rr.RecordingStream, name: str, camera: CameraFrames, timeline: Timeline) -> None:
    """Log the frames of the camera `name` at the ticks that they show."""
    pictures = (camera.frames[i] for i in range(len(camera.frames)))
    blobs = [simplejpeg.encode_jpeg(picture, quality=JPEG_QUALITY) for picture in pictures]
    columns = rr.EncodedImage.columns(blob=blobs, media_type=["image/jpeg"] * len(blobs))
    recording.send_columns(camera_path(name), timeline.at(camera.tick), columns, strict=True)
