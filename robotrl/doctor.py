"""`robotrl doctor`: what this machine can do, and the exact fix for what it cannot."""

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path

from omegaconf import DictConfig

from robotrl.errors import ConfigurationError
from robotrl.progress import say

_PACKAGES = ("mujoco", "torch", "lerobot", "diffusers", "hydra-core", "zarr", "rerun-sdk", "numpy")
_RENDER = """
import mujoco
model = mujoco.MjModel.from_xml_string("<mujoco><worldbody><light pos='0 0 3'/><geom size='.1'/></worldbody></mujoco>")
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
renderer = mujoco.Renderer(model, 32, 32)
renderer.update_scene(data)
print(int(renderer.render().max()))
renderer.close()
"""
_FREE_GB = 2.0


@dataclass(frozen=True)
class Finding:
    """One check: whether it passed, what was seen, and what to do if not. Optional ones only limit features."""

    name: str
    passed: bool
    seen: str
    fix: str = ""
    optional: bool = False


def doctor(config: DictConfig) -> None:
    """The command: check this machine."""
    if not examine(Path(config.run)):
        raise ConfigurationError("something above needs attention")


def examine(folder: Path) -> bool:
    """Print all findings; whether everything that the main job needs is there. `folder` is where runs are written."""
    checks: tuple[Callable[[], Finding], ...] = (_python, _packages, _modules, _physics, _rendering, _gpu)
    findings = [*(check() for check in checks), _disk(folder)]
    for f in findings:
        mark = "[green]ok  [/green]" if f.passed else ("[yellow]note[/yellow]" if f.optional else "[red]FAIL[/red]")
        say(f"  {mark}  {f.name:<12}{f.seen}")
        if not f.passed and f.fix:
            say(f"        {'':<12}→ {f.fix}")
    return all(f.passed or f.optional for f in findings)


def _python() -> Finding:
    seen = f"{sys.version.split()[0]}, {len(os.sched_getaffinity(0))} cores"
    return Finding("python", sys.version_info >= (3, 12), seen, "use Python 3.12 or newer")


def _packages() -> Finding:
    found, missing = list[str](), list[str]()
    for name in _PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    return Finding("packages", not missing, ", ".join(found), f"missing {', '.join(missing)}: run 'uv sync'")


def _modules() -> Finding:
    """Our top-level packages have plain names; another distribution may install modules of the same name."""
    ours = ("sim", "policies", "teleop", "world_models")
    foreign = {m: set(packages_distributions().get(m, [])) - {"robotrl"} for m in ours}
    foreign = {m: d for m, d in foreign.items() if d}
    names = ", ".join(f"'{m}' also comes from {', '.join(sorted(d))}" for m, d in foreign.items())
    fix = "uninstall " + ", ".join(sorted({d for ds in foreign.values() for d in ds}))
    return Finding("modules", not foreign, names or "no clash of module names", fix)


def _physics() -> Finding:
    mujoco = importlib.import_module("mujoco")
    model = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>"
    )
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, 100)
    passed = abs(data.qpos[2] + 4.9525 * 0.0404) < 0.02
    return Finding("physics", bool(passed), f"mujoco {mujoco.__version__}, a body fell {-data.qpos[2]:.3f} m")


def _rendering() -> Finding:
    backend = os.environ.get("MUJOCO_GL", "egl")
    environment = {**os.environ, "MUJOCO_GL": backend}
    try:
        done = subprocess.run(
            [sys.executable, "-c", _RENDER], env=environment, capture_output=True, text=True, timeout=60
        )
        passed = done.returncode == 0
        seen = f"MUJOCO_GL={backend} " + ("draws a picture" if passed else "draws no picture")
    except subprocess.TimeoutExpired:
        passed, seen = False, f"MUJOCO_GL={backend} did not answer in 60 s"
    fix = "for videos: apt-get install libegl1 libgl1-mesa-dri, or set MUJOCO_GL to glfw or osmesa"
    return Finding("rendering", passed, seen, fix, optional=True)


def _gpu() -> Finding:
    torch = importlib.import_module("torch")
    passed = bool(torch.cuda.is_available())
    return Finding(
        "gpu", passed, torch.cuda.get_device_name() if passed else "none; everything runs on the CPU", "", True
    )


def _disk(folder: Path) -> Finding:
    there = folder if folder.exists() else Path.cwd()
    free_gb = shutil.disk_usage(there).free / 1e9
    writable = os.access(there, os.W_OK)
    seen = f"{free_gb:.0f} GB free at {there}" + ("" if writable else ", not writable")
    return Finding(
        "disk",
        writable and free_gb > _FREE_GB,
        seen,
        "a default run needs about 1 GB: choose another folder with run=PATH",
    )
