"""The Zarr v3 codec `robotrl.jpeg`: a chunk of one RGB picture is one JPEG (JFIF) file.

zarr-python finds it through the entry point `zarr.codecs` where robotrl is installed; elsewhere call
`zarr.registry.register_codec("robotrl.jpeg", JpegCodec)`. Chunks are (1, H, W, 3) uint8. `quality` (1 to 100) and
`subsampling` ("444", "422" or "420") matter to the encoder alone.
"""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import simplejpeg
from zarr.abc.codec import ArrayBytesCodec

from robotrl.data.frames import JPEG_QUALITY, JPEG_SUBSAMPLING
from robotrl.errors import DataError


@dataclass(frozen=True)
class JpegCodec(ArrayBytesCodec):
    """Encodes and decodes one picture a chunk."""

    quality: int = JPEG_QUALITY
    subsampling: str = JPEG_SUBSAMPLING
    is_fixed_size: bool = field(default=False, init=False)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The codec that a `zarr.json` names."""
        return cls(**data.get("configuration", {}))

    def to_dict(self) -> dict[str, Any]:
        """What a `zarr.json` says of it."""
        return {
            "name": "robotrl.jpeg",
            "configuration": {"quality": self.quality, "subsampling": self.subsampling},
        }

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        """Not known in advance."""
        raise NotImplementedError

    async def _decode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        picture = simplejpeg.decode_jpeg(chunk_data.as_numpy_array())
        return chunk_spec.prototype.nd_buffer.from_ndarray_like(picture.reshape(chunk_spec.shape))

    async def _encode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        picture = chunk_data.as_numpy_array()
        if picture.dtype != np.uint8 or picture.ndim != 4 or picture.shape[0] != 1 or picture.shape[3] != 3:
            raise DataError(
                f"robotrl.jpeg: expected chunks (1, H, W, 3) of uint8, got {picture.shape} of {picture.dtype}"
            )
        encoded = simplejpeg.encode_jpeg(
            np.ascontiguousarray(picture[0]), self.quality, colorsubsampling=self.subsampling
        )
        return chunk_spec.prototype.buffer.from_bytes(encoded)
