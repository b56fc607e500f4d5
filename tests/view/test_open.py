import socket
import time
import urllib.request
from pathlib import Path

import pytest
from rerun.chunk import RrdReader

from robotrl.errors import ConfigurationError, DataError, RobotRLError
from robotrl.view import open as opening
from robotrl.view.rerun_sink import RerunSink, every
from tests import builders


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "peg"
    sink = RerunSink(run / "rerun", builders.spec(), every(1))
    sink.on_episode(builders.episode(ticks=20, seed=0, takeover=None))
    sink.on_episode(builders.episode(ticks=20, seed=1, takeover=None, outcome="failure"))
    return run


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def test_recordings_are_found_by_name_and_selected_by_outcome(run: Path) -> None:
    found = opening.recordings(run)
    assert len(found) == 2
    (chosen,) = opening.select(found, "failure")
    assert "failure" in chosen.name


def test_a_run_that_does_not_exist_names_those_that_do(run: Path) -> None:
    with pytest.raises(DataError, match=r"no run directory.*peg"):
        opening.recordings(run.with_name("pig"))


def test_a_run_without_recordings_says_where_they_would_be(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no recordings.*rerun"):
        opening.recordings(tmp_path)


def test_selecting_nothing_lists_what_there_is(run: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"'tipped'.*success-1000000"):
        opening.select(opening.recordings(run), "tipped")


def test_one_recording_is_exported_as_it_is(run: Path, tmp_path: Path) -> None:
    (first, _) = opening.recordings(run)
    exported = opening.export([first], tmp_path / "new" / "one.rrd")
    assert exported.read_bytes() == first.read_bytes()


def test_several_recordings_are_exported_into_one_file(run: Path, tmp_path: Path) -> None:
    exported = opening.export(opening.recordings(run), tmp_path / "all.rrd")
    ids = {entry.recording_id for entry in RrdReader(exported).recordings()}
    assert ids == {f"{seed:016x}" for seed in (0, 1)}


@pytest.mark.parametrize("kept", [0, 300, -2000])
def test_a_damaged_recording_is_refused_by_name(run: Path, tmp_path: Path, kept: int) -> None:
    broken = tmp_path / "broken.rrd"
    broken.write_bytes(opening.recordings(run)[0].read_bytes()[:kept])
    for use in (lambda paths: opening.export(paths, tmp_path / "all.rrd"), opening.serve_web):
        with pytest.raises(DataError, match=r"broken\.rrd is damaged"):
            use([opening.recordings(run)[0], broken])
    assert [path.name for path in tmp_path.iterdir()] == ["broken.rrd"]


def test_export_wants_a_name_that_rerun_opens(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"\.rrd"):
        opening.export(opening.recordings(run), tmp_path / "all.mp4")


def test_export_below_a_file_is_a_clear_error(run: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RobotRLError, match="file"):
        opening.export(opening.recordings(run), tmp_path / "file" / "all.rrd")


def test_without_a_display_the_error_names_the_ways_out(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with pytest.raises(ConfigurationError, match=r"--web.*--export"):
        opening.open_viewer(opening.recordings(run))


def test_the_web_viewer_answers_on_loopback_and_on_no_other_address(run: Path) -> None:
    web_port, port = free_ports(2)
    server = opening.serve_web(opening.recordings(run), web_port, port)
    try:
        page = _wait_for(opening.web_address(web_port, port))
        assert b"<html" in page.lower()
        assert set(_listening(server.pid)) == {("127.0.0.1", web_port), ("127.0.0.1", port)}
    finally:
        server.terminate()
        server.wait(10)


def test_a_port_in_use_is_named(run: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"port {port}"):
            opening.serve_web(opening.recordings(run), port, 1)


def _wait_for(address: str, limit_s: float = 30.0) -> bytes:
    end = time.monotonic() + limit_s
    while True:
        try:
            return urllib.request.urlopen(address, timeout=5).read()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def _listening(pid: int) -> list[tuple[str, int]]:
    """Addresses on which the process and its children listen, from /proc."""
    inodes = set()
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and (int(process.name) == pid or _parent(process) == pid):
            inodes |= {link.readlink().name for link in (process / "fd").iterdir() if link.is_symlink()}
    found = []
    for table, width in (("tcp", 8), ("tcp6", 32)):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                host, port = fields[1].split(":")
                assert len(host) == width
                address = ".".join(str(b) for b in reversed(bytes.fromhex(host))) if width == 8 else host
                found.append((address, int(port, 16)))
    return found


def _parent(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return -1
