"""Composes a command's configuration from `configs/` and overrides, and says what was mistyped."""

import hashlib
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import ConfigCompositionException, HydraException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from robotrl.errors import ConfigurationError, unknown_name

_SHARED = "shared"
"""Folder of a group for what several of its choices have in common; none of them itself."""

_OF_ONE_COMMAND = {"run", "stage", "episodes", "version", "start", "updates", "seeds", "video", "name", "worlds"}
"""Options that a command never takes over from its run."""

CHANGES_NO_RESULT = (
    "recordings",
    "run",
    "threads",
    "worlds",
    "policy.threads",
    "task.environment.threads",
    "spill",
)
"""Options that say where a run computes and how fast, but not what."""

_SAME_EPISODES = ("episodes", "camera_every", "copies")
"""Options that say how many episodes a run records and what is kept of them, but not how they go."""


def config_directory() -> Path:
    """The folder of configuration files: inside the installed package, or at the root of a checkout."""
    package = Path(__file__).resolve().parent
    for folder in (package / "configs", package.parent / "configs"):
        if folder.is_dir():
            return folder
    raise ConfigurationError(f"no 'configs' folder beside {package}: reinstall robotrl")


def compose_config(command: str, overrides: Sequence[str]) -> DictConfig:
    """The configuration of `command` with Hydra `overrides`; a wrong name is answered with the nearest right one."""
    with initialize_config_dir(version_base=None, config_dir=str(config_directory())):
        try:
            config = compose(command, overrides=list(overrides))
            OmegaConf.resolve(config)
        except OverrideParseException as error:
            raise ConfigurationError(f"cannot read the override '{error.override}': write it as name=value") from error
        except (ConfigCompositionException, HydraException, OmegaConfBaseException) as error:
            raise _explained(command, overrides, error) from error
    OmegaConf.set_readonly(config, True)
    return config


def with_run_values(config: DictConfig, overrides: Sequence[str]) -> DictConfig:
    """`config` with the values that its run directory was started with, for all options that were not overridden."""
    stored_path = Path(config.run) / "config.yaml"
    if not stored_path.is_file():
        return config
    stored: Any = OmegaConf.load(stored_path)
    given = {o.lstrip("+~").partition("=")[0].partition(".")[0] for o in overrides}
    merged = OmegaConf.create(plain(config))
    for key in set(merged) & set(stored) - given - _OF_ONE_COMMAND:
        merged[key] = stored[key]
    OmegaConf.set_readonly(merged, True)
    return merged


def plain(config: DictConfig) -> dict[str, Any]:
    """The configuration as nested dictionaries and lists."""
    container = OmegaConf.to_container(config, resolve=True)
    if not isinstance(container, dict):
        raise ConfigurationError(f"expected a mapping of options, got {type(container).__name__}")
    return {str(key): value for key, value in container.items()}


def identity(config: DictConfig) -> str:
    """Sixteen hex digits of the options that decide what a run's episodes are.

    Episode ids are made from it. Training reads episodes in the order of their ids, so the same experiment gives the
    same figures in a directory of any name. How many are recorded is left out (more are added to those that are
    there), and so is whether their pictures are kept.
    """
    values = plain(config)
    for key in (*CHANGES_NO_RESULT, *_SAME_EPISODES):
        *path, last = key.split(".")
        node: Any = values
        for name in path:
            node = node.get(name, {})
        node.pop(last, None)
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def sweep(overrides: Sequence[str]) -> Iterator[list[str]]:
    """Every combination of `a=1,2 b=x,y` as plain overrides, in order."""
    parsed = OverridesParser.create().parse_overrides(list(overrides))
    choices = [
        [f"{o.get_key_element()}={value}" for value in o.sweep_string_iterator()] if o.is_sweep_override() else [text]
        for o, text in zip(parsed, overrides, strict=True)
    ]
    yield from (list(combination) for combination in itertools.product(*choices))


def described(command: str) -> str:
    """The options of `command` itself with defaults and comments, as `configs/` has them; then those of its profile."""
    lines = (config_directory() / f"{command}.yaml").read_text().splitlines()
    if any("profile:" in line for line in lines):
        lines += (config_directory() / "profile" / "default.yaml").read_text().splitlines()
    # The list of parts ("defaults:" and its items) and remarks of their own are left out.
    options = [line for line in lines if line and not line.startswith(("defaults:", "  - ", "#"))]
    return "".join(f"  {line}\n" for line in options)


def group_choices(group: str) -> list[str]:
    """Names in a configuration group, as `task` or `selector`; some are in a folder of it, as `suites/metaworld`."""
    folder = config_directory() / group
    found = (path.relative_to(folder).with_suffix("") for path in folder.rglob("*.yaml"))
    return sorted(path.as_posix() for path in found if path.parts[0] != _SHARED)


def _explained(command: str, overrides: Sequence[str], error: Exception) -> ConfigurationError:
    """The override that caused `error`, with the nearest valid name."""
    groups = {p.name for p in config_directory().iterdir() if p.is_dir()}
    for override in overrides:
        key, _, value = override.lstrip("+~").partition("=")
        if key in groups and value not in group_choices(key):
            return unknown_name(key, value, group_choices(key))
    known = _keys(compose(command)) | groups
    for override in overrides:
        key = override.lstrip("+~").partition("=")[0]
        if key not in known:
            where = f"; robotrl {command} --cfg job prints them"
            return unknown_name(f"option of 'robotrl {command}'", key, known, where)
    return ConfigurationError(re.sub(r"\s+", " ", str(error)))


def _keys(config: DictConfig, prefix: str = "") -> set[str]:
    """Dotted names of all options."""
    found: set[str] = set()
    for key in config:
        name = f"{prefix}{key}"
        found.add(name)
        if not OmegaConf.is_missing(config, key) and isinstance(config[key], DictConfig):
            found |= _keys(config[key], f"{name}.")
    return found
