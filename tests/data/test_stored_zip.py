"""Archives that are written directly are what `zipfile` and `unzip` expect."""

import io
import shutil
import subprocess
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robotrl.data.stored_zip import StoredZip
from robotrl.errors import DataError

NAMES = st.text(
    st.characters(codec="utf-8", exclude_characters="/\\\0", exclude_categories=("Cs",)), min_size=1, max_size=40
)


def archive(members: dict[str, bytes], aligned: bool = True) -> bytes:
    made = StoredZip()
    for name, content in members.items():
        made.add(name, content, aligned=aligned)
    return made.close()


@given(st.dictionaries(NAMES, st.binary(max_size=300), max_size=8), st.booleans())
@settings(max_examples=60, deadline=None)
def test_zipfile_reads_back_every_member(members: dict[str, bytes], aligned: bool):
    with zipfile.ZipFile(io.BytesIO(archive(members, aligned))) as found:
        assert found.testzip() is None
        assert {info.filename: found.read(info) for info in found.infolist()} == members


def test_aligned_contents_begin_at_multiples_of_64_bytes():
    members = {f"{i}" * i: bytes([i]) * 37 for i in range(1, 9)}
    content = archive(members)
    for data in members.values():
        assert content.index(data) % 64 == 0


@pytest.mark.skipif(shutil.which("unzip") is None, reason="unzip is not installed")
def test_unzip_finds_no_fault(tmp_path):
    (tmp_path / "a.zip").write_bytes(archive({"state/c/0": b"x" * 100, "zarr.json": b"{}"}))
    assert subprocess.run(["unzip", "-tq", tmp_path / "a.zip"], check=False).returncode == 0


def test_what_would_need_zip64_is_refused():
    made = StoredZip()
    with pytest.raises(DataError, match="4 GiB"):
        for i in range(1 << 16):
            made.add(str(i), b"")
