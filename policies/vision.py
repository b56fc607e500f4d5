"""What a small policy sees in pictures: where in each of them something is."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from robotrl.errors import ConfigurationError
from robotrl.specs import CameraSpec

_SMALLEST = 16
_FLAT = 1e-3
"""Deviation below which a map shows nothing."""


class SpatialSoftmax(nn.Module):
    """(B, C, h, w) → (B, 2 C): of every channel the mean place, x then y from -1 to 1, under a softmax over pixels.

    A policy that reaches needs to know where a thing is, and this says so to a fraction of a pixel with no weights
    but one sharpness a channel (Levine et al. 2016, "End-to-End Training of Deep Visuomotor Policies"). Maps are
    brought to mean 0 and deviation 1 before: a small thing then stands out from the first update on.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.log_sharpness = nn.Parameter(torch.ones(channels))

    def forward(self, maps: Tensor) -> Tensor:
        """Places (B, 2 C) of what `maps` (B, C, h, w) show."""
        height, width = maps.shape[2:]
        # One pass over contiguous rows for mean, deviation and sharpness: a third of the time of three passes.
        sharpness = self.log_sharpness.exp()
        heat = functional.group_norm(maps.contiguous(), len(sharpness), sharpness, eps=_FLAT**2).flatten(2)
        y, x = torch.meshgrid(torch.linspace(-1.0, 1.0, height), torch.linspace(-1.0, 1.0, width), indexing="ij")
        places = functional.softmax(heat, dim=2) @ torch.stack([x.flatten(), y.flatten()], dim=1)
        return places.transpose(1, 2).flatten(1)


class ImageEncoder(nn.Module):
    """Pictures of several cameras → places of things, (B, F); each camera has convolutions of its own.

    The first convolution halves the picture, the others keep its size, so that a thing of three pixels has a place.

    Args:
        cameras: what is seen, in order.
        channels: of the convolutions, at least one.
    """

    def __init__(self, cameras: Sequence[CameraSpec], channels: Sequence[int]) -> None:
        super().__init__()
        if min(channels, default=0) < 1:
            raise ConfigurationError(f"policy.channels={list(channels)}: expected one or more positive numbers")
        for camera in cameras:
            if min(camera.height, camera.width) < _SMALLEST:
                raise ConfigurationError(f"camera {camera}: expected at least {_SMALLEST} x {_SMALLEST} pixels")
        self.size = 2 * channels[-1] * len(cameras)
        self.eyes = nn.ModuleList(_eye(channels) for _ in cameras)

    def forward(self, pictures: Sequence[Tensor]) -> Tensor:
        """Features (B, F) of `pictures`, one (B, H, W, 3) uint8 a camera."""
        # Channels stay last in memory, which is how pictures come and what convolutions on a CPU like.
        planes = [picture.float().div_(64.0).sub_(2.0).permute(0, 3, 1, 2) for picture in pictures]
        return torch.cat([eye(plane) for eye, plane in zip(self.eyes, planes, strict=True)], dim=1)


def _eye(channels: Sequence[int]) -> nn.Module:
    layers: list[nn.Module] = []
    before = 3
    for index, after in enumerate(channels):
        size, stride = (5, 2) if index == 0 else (3, 1)
        layers += [nn.Conv2d(before, after, size, stride, padding=size // 2), nn.ReLU()]
        before = after
    # The places are those of the last convolution's values, which may be negative.
    return nn.Sequential(*layers[:-1], SpatialSoftmax(before))
