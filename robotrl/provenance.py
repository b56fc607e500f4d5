"""Which code is running: what lineage says about what made a file."""

import hashlib
import subprocess
from functools import cache
from pathlib import Path

from robotrl import __version__

_PACKAGES = ("robotrl", "sim", "policies", "world_models", "teleop")


@cache
def code_fingerprint() -> str:
    """The version, and which code of that version: "0.1.0+g3f2a91c04b7e" or "0.1.0+h…".

    In a git checkout it is the commit, with `.dirty` when tracked files differ from it; elsewhere (a wheel, a
    copy) the first twelve hex digits of the SHA-256 over the packages' Python files.
    """
    root = Path(__file__).resolve().parent.parent
    commit = _git(root, "rev-parse", "--short=12", "HEAD") if (root / ".git").exists() else None
    if commit:
        changed = _git(root, "status", "--porcelain", "--untracked-files=no")
        return f"{__version__}+g{commit}{'.dirty' if changed else ''}"
    return f"{__version__}+h{_hash_of_files(root)}"


def _git(root: Path, *arguments: str) -> str | None:
    """What git prints, or None where it is missing or does not know the checkout."""
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _hash_of_files(root: Path) -> str:
    digest = hashlib.sha256()
    for package in _PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            digest.update(f"{path.relative_to(root)}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
