"""Tensors in safetensors files, with JSON beside them, checked when they are read."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from robotrl.errors import DataError


def to_bytes(tensors: Mapping[str, Tensor], info: Mapping[str, Any] | None = None) -> bytes:
    """A safetensors file of `tensors`; `info` (JSON) goes into its header."""
    metadata = None if info is None else {"json": json.dumps(info, sort_keys=True)}
    return save({name: t.detach().cpu().contiguous() for name, t in tensors.items()}, metadata)


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of the safetensors file at `path` and the JSON in its header ({} when there is none)."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path} is missing: the directory is incomplete; restore it or train again") from None
    try:
        tensors = load(content)
        size = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + size])
        return tensors, json.loads(header.get("__metadata__", {}).get("json", "{}"))
    except (SafetensorError, ValueError) as error:
        raise DataError(f"{path} is not a whole safetensors file ({error}); restore it or train again") from None


def load_into(module: nn.Module, tensors: Mapping[str, Tensor], where: str) -> None:
    """Put `tensors` into `module`; every one must be there, of the right shape, and finite."""
    expected = module.state_dict()
    missing, extra = sorted(expected.keys() - tensors.keys()), sorted(tensors.keys() - expected.keys())
    if missing or extra:
        raise DataError(f"{where}: tensors missing {missing}, unexpected {extra}; it belongs to another network")
    for name, wanted in expected.items():
        got = tensors[name]
        if got.shape != wanted.shape or got.dtype != wanted.dtype:
            raise DataError(
                f"{where}: tensor '{name}' is {tuple(got.shape)} {got.dtype}, expected {tuple(wanted.shape)} "
                f"{wanted.dtype}; it belongs to another network"
            )
        if not torch.isfinite(got).all():
            raise DataError(f"{where}: tensor '{name}' holds NaN or infinity; restore the file or train again")
    module.load_state_dict(dict(tensors))
