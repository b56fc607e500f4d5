import re
import shutil
import subprocess
import sys
from pathlib import Path

import robotrl
from robotrl.provenance import code_fingerprint


def fingerprint(root: Path) -> str:
    code = "from robotrl.provenance import code_fingerprint; print(code_fingerprint())"
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def copied(root: Path) -> Path:
    package = Path(robotrl.__file__).parent
    (root / "robotrl").mkdir(parents=True)
    for name in ("__init__.py", "provenance.py"):
        shutil.copy(package / name, root / "robotrl")
    return root


def test_it_names_the_version_and_the_code():
    assert re.fullmatch(
        re.escape(robotrl.__version__) + r"\+(g[0-9a-f]{12}(\.dirty)?|h[0-9a-f]{12})", code_fingerprint()
    )


def test_outside_a_checkout_it_changes_with_the_files(tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    root = copied(tmp_path / "copy")
    before = fingerprint(root)
    assert "+h" in before and fingerprint(root) == before
    (root / "robotrl" / "more.py").write_text("x = 1\n")
    assert fingerprint(root) != before


def test_in_a_checkout_it_is_the_commit_and_says_when_files_differ(tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    root = copied(tmp_path / "checkout")
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    for words in (("init", "-q"), ("add", "."), (*identity, "commit", "-qm", "one")):
        subprocess.run(["git", "-C", root, *words], check=True)
    clean = fingerprint(root)
    assert "+g" in clean and not clean.endswith(".dirty")
    (root / "robotrl" / "__init__.py").open("a").write("\n")
    assert fingerprint(root) == f"{clean}.dirty"
