import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robotrl.data.annotations import Annotations, list_annotations, read_annotations, write_annotations
from robotrl.data.diff import compare_annotations
from robotrl.errors import ConfigurationError, DataError

LENGTHS = {"a": 3, "b": 1, "c": 4}
LINEAGE = {"made_by": "test", "code": "0"}


def columns(dtype=np.float32, start: int = 0) -> dict:
    return {i: {"x": np.arange(start, start + n).astype(dtype)} for i, n in LENGTHS.items()}


def write(root: Path, version: str = "1", kind: str = "labels", lineage=LINEAGE, **named) -> None:
    write_annotations(root, Annotations(kind, version, named or columns(), lineage), LENGTHS)


@pytest.mark.parametrize(
    ("given_as", "kept_as"),
    [("f4", "f4"), ("i4", "i4"), ("u1", "u1"), ("f8", "f4"), ("?", "u1")],
)
def test_a_column_keeps_its_type(tmp_path, given_as, kept_as):
    write(tmp_path, **columns(given_as))
    for episode, named in read_annotations(tmp_path, "labels", "1").columns.items():
        assert named["x"].dtype == np.dtype(kept_as)
        np.testing.assert_array_equal(named["x"], columns(given_as)[episode]["x"])


@pytest.mark.parametrize("dtype", ["i8", "f2", "c8", "U3", "O"])
def test_a_column_of_another_type_is_refused(tmp_path, dtype):
    with pytest.raises(DataError, match="expected one of float32, int32, uint8"):
        write(tmp_path, **columns(dtype))
    assert list_annotations(tmp_path) == ()


def test_all_episodes_have_one_type(tmp_path):
    mixed = columns() | {"b": {"x": np.zeros(1, np.int32)}}
    with pytest.raises(DataError, match="of episode b has another type than float32"):
        write(tmp_path, **mixed)


@pytest.mark.parametrize("name", ["offsets", "crc", "../x", ""])
def test_names_that_cannot_be_columns_are_refused(tmp_path, name):
    with pytest.raises(DataError, match="column"):
        write(tmp_path, a={name: np.zeros(3, np.float32)})


@pytest.mark.parametrize("lacking", ["made_by", "code"])
def test_a_lineage_says_what_made_it_and_with_which_code(tmp_path, lacking):
    with pytest.raises(DataError, match=f"lacks {lacking}"):
        write(tmp_path, lineage={k: v for k, v in LINEAGE.items() if k != lacking})


@settings(deadline=None, max_examples=20)
@given(st.sets(st.sampled_from([*LENGTHS, "elsewhere"])))
def test_a_subset_is_what_all_of_it_says_of_these_episodes(tmp_path_factory, wanted):
    root = tmp_path_factory.mktemp("annotations")
    write(root)
    everything = read_annotations(root, "labels", "1").columns
    found = read_annotations(root, "labels", "1", wanted).columns
    assert found.keys() == wanted & everything.keys()
    for episode, named in found.items():
        np.testing.assert_array_equal(named["x"], everything[episode]["x"])


def test_damage_is_found_where_it_is_and_leaves_other_episodes_readable(tmp_path):
    write(tmp_path)
    path = tmp_path / "labels" / "1.zarr.zip"
    content = bytearray(path.read_bytes())
    last = np.arange(4, dtype=np.float32).tobytes()
    content[content.index(last) + 5] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="'x/c/0' is damaged"):
        read_annotations(tmp_path, "labels", "1")
    with pytest.raises(DataError, match="the columns of episode c are damaged"):
        read_annotations(tmp_path, "labels", "1", ["a", "c"])
    assert list(read_annotations(tmp_path, "labels", "1", ["a", "b"]).columns) == ["a", "b"]


def test_listing_goes_across_kinds_and_leaves_out_what_is_none(tmp_path):
    write(tmp_path, "2")
    write(tmp_path, "10")
    write(tmp_path, "1", kind="values")
    (tmp_path / "values" / "notes.txt").write_text("mine")
    (tmp_path / ".hidden").mkdir()
    assert list_annotations(tmp_path) == (("labels", "10"), ("labels", "2"), ("values", "1"))
    assert list_annotations(tmp_path / "none") == ()


CLAIM = """
import sys
from pathlib import Path
import numpy as np
from robotrl.data.annotations import Annotations, write_annotations
from robotrl.errors import DataError
number = int(sys.argv[2])
columns = {"b": {"x": np.full(1, number, np.float32)}}
print("ready", flush=True)
sys.stdin.readline()
try:
    write_annotations(Path(sys.argv[1]), Annotations("labels", "1", columns, {"made_by": "t", "code": "0"}), {"b": 1})
    print(number)
except DataError:
    print("taken")
"""


def test_of_processes_that_choose_one_version_at_once_one_gets_it(tmp_path):
    start = partial(subprocess.Popen, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    processes = [start([sys.executable, "-c", CLAIM, str(tmp_path), str(n)]) for n in range(3)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.communicate(timeout=60)[0].strip() for process in processes]
    (winner,) = (int(answer) for answer in answers if answer != "taken")
    assert read_annotations(tmp_path, "labels", "1").columns["b"]["x"][0] == winner


def test_a_version_that_does_not_exist_is_an_error_for_subsets_too(tmp_path):
    write(tmp_path, "round-1")
    with pytest.raises(ConfigurationError, match="Did you mean 'round-1'"):
        read_annotations(tmp_path, "labels", "round1", ["a"])


def test_a_difference_counts_ticks_and_holds_nan_equal_to_nan():
    def version(name: str, a: list[float], **more) -> Annotations:
        return Annotations("labels", name, {"a": {"x": np.array(a, np.float32)}} | more, LINEAGE)

    found = compare_annotations(
        version("1", [0, np.nan, 2, 3], gone={"x": np.zeros(1)}),
        version("2", [0, np.nan, 1, np.nan], new={"x": np.zeros(1)}),
    )
    (column,) = found.columns
    assert (column.ticks, column.changed, column.mean, column.largest, column.where) == (4, 2, 1.0, 1.0, ("a", 2))
    assert (found.added, found.removed, found.equal) == (("new",), ("gone",), False)
    assert compare_annotations(version("1", [np.nan]), version("1", [np.nan])).equal


def test_newer_code_may_repeat_what_older_code_wrote_and_nothing_else(tmp_path):
    write(tmp_path)
    write(tmp_path, lineage=LINEAGE | {"code": "1"})
    assert read_annotations(tmp_path, "labels", "1").lineage["code"] == "0"
    with pytest.raises(DataError, match="immutable"):
        write(tmp_path, lineage=LINEAGE | {"made_by": "another"})
    with pytest.raises(DataError, match="immutable"):
        write(tmp_path, **columns(start=1))
