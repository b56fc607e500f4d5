"""Saved policy versions: safetensors weights, the spec they serve, and where they came from.

    <directory>/weights.safetensors   parameters and normaliser
    <directory>/spec.json             class, configuration, task, robot, state and action specs, version, SHA-256
    <directory>/lineage.json          parent version, data, training; free JSON

Nothing is pickled, and only classes of this project are ever imported.
"""

import hashlib
import importlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol, Self, cast

from torch import nn

from robotrl.errors import DataError, RobotRLError
from robotrl.interfaces import Trainable
from robotrl.learn.atomic import write_directory
from robotrl.learn.tensors import load_into, read_tensors, to_bytes
from robotrl.specs import ArraySpec, EnvironmentSpec, array_spec_from_json

_PACKAGES = ("policies", "robotrl")
_KEYS = ("_target_", "config", "task", "robot", "state", "action", "sha256")


class SavedPolicy(Trainable, Protocol):
    """A trainable network that can describe itself."""

    @classmethod
    def from_config(cls, config: Mapping[str, Any], state: ArraySpec, action: ArraySpec) -> Self:
        """Rebuild, without weights, what `config` described."""
        ...

    def config(self) -> dict[str, Any]:
        """JSON from which `from_config` rebuilds the network."""
        ...


def save_policy(
    directory: Path, policy: SavedPolicy, spec: EnvironmentSpec, lineage: Mapping[str, Any], replace: bool = False
) -> None:
    """Save `policy`, made for `spec`, as a new `directory`; it appears whole or not at all.

    `lineage` is JSON about its origin: parent version, data, training configuration. `replace` allows an existing
    directory, which a stage that is run again after a crash may have left without committing it.
    """
    weights = to_bytes(cast(nn.Module, policy).state_dict())
    description = {
        "_target_": f"{type(policy).__module__}.{type(policy).__qualname__}",
        "config": policy.config(),
        "task": spec.task,
        "robot": spec.robot,
        "state": asdict(spec.state),
        "action": asdict(spec.action),
        "sha256": hashlib.sha256(weights).hexdigest(),
    }
    files = {"weights.safetensors": weights, "spec.json": _json(description), "lineage.json": _json(lineage)}
    write_directory(directory, files, replace)


def load_policy(directory: Path, spec: EnvironmentSpec) -> SavedPolicy:
    """The policy saved in `directory`, checked against its hash and against the environment's `spec`."""
    description = _read_description(directory)
    _require_same_environment(directory, description, spec)
    path = directory / "weights.safetensors"
    tensors, _ = read_tensors(path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != description["sha256"]:
        raise DataError(
            f"{path} has SHA-256 {digest[:12]}, but spec.json says {description['sha256'][:12]}: the weights are not "
            "those that were saved; restore the directory or train again"
        )
    target = _class(directory, description["_target_"])
    try:
        policy = target.from_config(description["config"], spec.state, spec.action)
    except (TypeError, RobotRLError) as error:
        raise DataError(f"{directory}/spec.json: the configuration does not fit {target.__name__}: {error}") from None
    spec.require_cameras(policy.cameras, str(directory))
    load_into(cast(nn.Module, policy), tensors, str(path))
    return policy


def load_lineage(directory: Path) -> dict[str, Any]:
    """What `save_policy` was told about the origin of the version in `directory`."""
    return _read_json(directory / "lineage.json")


def _json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=2, sort_keys=True) + "\n").encode()


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise DataError(f"{path} is missing: not a saved policy, or an incomplete one") from None
    except ValueError as error:
        raise DataError(f"{path} is not valid JSON ({error}); restore it or train again") from None


def _read_description(directory: Path) -> dict[str, Any]:
    path = directory / "spec.json"
    description = _read_json(path)
    missing = [key for key in _KEYS if key not in description]
    if missing:
        raise DataError(f"{path} lacks {missing}: not a saved policy, or one of another release")
    return description


def _require_same_environment(directory: Path, description: Mapping[str, Any], spec: EnvironmentSpec) -> None:
    for key, expected in (("task", spec.task), ("robot", spec.robot)):
        if description[key] != expected:
            raise DataError(f"{directory} is a policy for {key} '{description[key]}', expected '{expected}'")
    for key, expected in (("state", spec.state), ("action", spec.action)):
        saved = array_spec_from_json(description[key])
        if saved != expected:
            changed = sorted(set(saved.elements) ^ set(expected.elements))
            detail = f"elements that differ: {changed}" if changed else "order, units or bounds differ"
            raise DataError(f"{directory} was trained with another {key} spec; {detail}. Train again on this one")


def _class(directory: Path, target: str) -> type[SavedPolicy]:
    module, _, name = target.rpartition(".")
    if module.split(".")[0] not in _PACKAGES:
        raise DataError(f"{directory}: refusing to import '{target}'; policies live in {' or '.join(_PACKAGES)}")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise DataError(f"{directory}: no policy class '{target}' here ({error})") from None
    if not (isinstance(found, type) and issubclass(found, nn.Module) and hasattr(found, "from_config")):
        raise DataError(f"{directory}: '{target}' is not a policy class")
    return cast(type[SavedPolicy], found)
