"""A store read by docs/store.md alone: json, zarr and the standard library, nothing of ours."""

import io
import json
import zipfile
import zlib
from pathlib import Path

import zarr
from zarr.core.buffer.cpu import Buffer
from zarr.storage import MemoryStore


def read_store(root: Path) -> dict[str, zarr.Group]:
    """Episode id → its Zarr group, in the order of ids."""
    commits, removed = {}, set()
    for journal in sorted(root.glob("writers/*/journal.jsonl")):
        at = 0
        for line in journal.read_bytes().split(b"\n")[:-1]:
            if line.strip() and int(line[:8], 16) == zlib.crc32(line[9:]):
                record = json.loads(line[9:])
                if record["kind"] == "episode":
                    commits[journal.parent.name, at] = {**record, "file": journal.parent / record["file"]}
                elif record["kind"] == "remove":
                    removed |= {(writer, byte) for writer, bytes_ in record["commits"].items() for byte in bytes_}
                else:
                    for byte, offset in record["members"]:
                        moved = {"file": journal.parent / record["file"], "offset": offset}
                        commits[journal.parent.name, byte].update(moved)
            at += len(line) + 1
    by_id = {record["id"]: record for key, record in sorted(commits.items(), reverse=True) if key not in removed}
    return {id_: open_episode(by_id[id_]) for id_ in sorted(by_id)}


def open_episode(record: dict) -> zarr.Group:
    content = record["file"].read_bytes()[record["offset"] : record["offset"] + record["size"]]
    assert zlib.crc32(content) == record["crc"]
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: Buffer.from_bytes(archive.read(name)) for name in archive.namelist()}
    return zarr.open_group(MemoryStore(members), mode="r")
