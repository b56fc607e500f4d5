"""The directory of one run: what was configured, what happened, and all that was made.

config.yaml     as first started        events.jsonl    the log; the run's state is its projection
store/          episodes                policies/       one directory a version
rerun/          recordings              lock            held by the process that runs
"""

import json
import os
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

from robotrl.data.durable import FileLock, ensure_directory, storage_errors, write_atomic
from robotrl.data.journal import JSON
from robotrl.errors import ConfigurationError, DataError
from robotrl.events import STAGE_DONE, STAGE_STARTED, EventLog

_OWN = frozenset({"config.yaml", "events.jsonl", "store", "policies", "rerun", "lock"})


class RunDirectory:
    """A run that this process holds. Open one with `RunDirectory.open`; it is a context manager."""

    def __init__(self, path: Path, lock: FileLock) -> None:
        self.path = path
        self.store, self.policies, self.rerun = (ensure_directory(path / n) for n in ("store", "policies", "rerun"))
        self.events = EventLog(path / "events.jsonl")
        self._lock = lock

    @classmethod
    def open(
        cls, path: Path, config: Mapping[str, JSON], environment: str, *, may_differ: Collection[str] = ()
    ) -> "RunDirectory":
        """Create the run, or take up the one that is there.

        Args:
            path: of the run.
            config: all of the configuration, as nested mappings.
            environment: fingerprint of the `EnvironmentSpec`.
            may_differ: dotted keys (and all below them) that do not change what a run computes.

        Raises:
            RunBusyError: another process holds the run; the message has its process id.
            ConfigurationError: the run was started with another configuration or environment, or it is no run.
            StorageError: the directory cannot be written to.
        """
        ensure_directory(path)
        _refuse_foreign(path)
        lock = FileLock(path / "lock")
        with ExitStack() as undo:
            undo.callback(lock.release)
            run = cls(path, lock)
            undo.callback(run.close)
            run._require_config(json.loads(json.dumps(config)), environment, may_differ)
            undo.pop_all()
        return run

    def stage(self, name: str, function: Callable[[], Mapping[str, JSON]]) -> Mapping[str, Any]:
        """The result of a stage: recorded if it was completed before, else of running `function` now.

        A stage that was interrupted runs again from its start, so it must repeat itself. The result is what JSON makes
        of the returned mapping, the first time too. Recorded with it: `wall_s`, and `cpu_s` of this process and of
        child processes that ended meanwhile.
        """
        done = self.events.completed(name)
        if done is not None:
            return done["result"]
        self.events.append(STAGE_STARTED, {"stage": name})
        wall, cpu = time.monotonic(), _cpu_seconds()
        result = function()
        took: dict[str, JSON] = {"wall_s": time.monotonic() - wall, "cpu_s": _cpu_seconds() - cpu}
        return self.events.append(STAGE_DONE, {"stage": name, "result": result, **took}).payload["result"]

    def write_text_atomic(self, name: str, text: str) -> Path:
        """Replace the file `name` (a path below the run) by `text`, whole or not at all, and return its path."""
        path = self.path / name
        ensure_directory(path.parent)
        write_atomic(path, text.encode())
        return path

    def close(self) -> None:
        """Give the run up. Idempotent."""
        self.events.close()
        self._lock.release()

    def __enter__(self) -> "RunDirectory":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _require_config(self, config: dict[str, Any], environment: str, may_differ: Collection[str]) -> None:
        path = self.path / "config.yaml"
        if not path.exists():
            write_atomic(path, yaml.safe_dump(config, sort_keys=False, allow_unicode=True).encode())
        found = _differences(read_config(self.path), config)
        differing = [line for key, line in found if not _covered(key, may_differ)]
        created = next((e.payload for e in self.events.read() if e.kind == "run_created"), None)
        if created is None:
            self.events.append("run_created", {"environment": environment})
        elif created["environment"] != environment:
            differing.append(f"environment: {created['environment']} in the run, {environment} now")
        if differing:
            raise ConfigurationError(
                f"{self.path} was started with another configuration:\n  " + "\n  ".join(differing) + "\n"
                "Repeat the command with the values of the run to resume it, or choose another run directory."
            )


def read_config(path: Path) -> dict[str, Any]:
    """The configuration that the run at `path` was started with; needs no lock."""
    file = path / "config.yaml"
    if not file.exists():
        raise ConfigurationError(f"{path} is not a run directory (it has no config.yaml): check the path")
    with storage_errors("read", file):
        content = file.read_bytes()
    try:
        config = yaml.safe_load(content)
    except yaml.YAMLError as error:
        raise DataError(f"{file}: not readable as YAML: {error}") from error
    if not isinstance(config, dict):
        raise DataError(f"{file}: expected a mapping, got {type(config).__name__}")
    return config


def _refuse_foreign(path: Path) -> None:
    with storage_errors("read", path):
        names = {entry.name for entry in path.iterdir() if not entry.name.endswith(".tmp")}
    if names - _OWN and "config.yaml" not in names:
        raise ConfigurationError(
            f"{path} holds other files ({', '.join(sorted(names - _OWN)[:3])}): choose an empty directory"
        )


def _differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(dotted key, line for the message) of every leaf that differs."""
    old, new = _flatten(ours), _flatten(theirs)
    keys = [key for key in {**old, **new} if old.get(key, "(absent)") != new.get(key, "(absent)")]
    return [(k, f"{k}: {old.get(k, '(absent)')} in the run, {new.get(k, '(absent)')} now") for k in keys]


def _flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Dotted key → value as JSON text, which also makes NaN equal to itself."""
    flat: dict[str, str] = {}
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            flat |= _flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = json.dumps(value)
    return flat


def _covered(key: str, prefixes: Collection[str]) -> bool:
    return any(key == prefix or key.startswith(f"{prefix}.") for prefix in prefixes)


def _cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
