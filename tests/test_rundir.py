import subprocess
import sys
import time
from pathlib import Path

import pytest

from robotrl.errors import ConfigurationError, DataError, RunBusyError, StorageError
from robotrl.events import read_events, stage_results
from robotrl.rundir import RunDirectory, read_config

CONFIG = {"task": "insert", "seed": 0, "train": {"updates": 1500, "sizes": [256, 256]}, "view": {"web": False}}
REPOSITORY = Path(__file__).parents[1]


def open_run(path: Path, **change) -> RunDirectory:
    return RunDirectory.open(path, CONFIG | change, "abc", may_differ=("view",))


def test_a_new_run_has_its_files_and_its_configuration(tmp_path):
    with open_run(tmp_path / "runs/one") as run:
        assert run.store.is_dir() and run.policies.is_dir() and run.rerun.is_dir()
        assert read_config(run.path) == CONFIG
        assert [e.kind for e in run.events.read()] == ["run_created"]


def test_a_run_is_taken_up_with_the_same_configuration(tmp_path):
    open_run(tmp_path / "r").close()
    with open_run(tmp_path / "r") as run:
        assert len(run.events.read()) == 1


def test_a_difference_that_matters_is_listed(tmp_path):
    open_run(tmp_path / "r").close()
    with pytest.raises(ConfigurationError) as caught:
        open_run(tmp_path / "r", task="pick_place", train={"updates": 10, "sizes": [256, 256]}, extra=None)
    message = str(caught.value)
    for line in (
        'task: "insert" in the run, "pick_place" now',
        "train.updates: 1500 in the run, 10 now",
        "extra: (absent)",
    ):
        assert line in message
    assert "sizes" not in message
    assert "choose another run directory" in message
    assert read_config(tmp_path / "r") == CONFIG
    open_run(tmp_path / "r").close()


def test_a_difference_that_does_not_matter_is_let_through(tmp_path):
    open_run(tmp_path / "r").close()
    with open_run(tmp_path / "r", view={"web": True, "port": 1}) as run:
        assert read_config(run.path)["view"] == {"web": False}


def test_another_environment_is_refused(tmp_path):
    open_run(tmp_path / "r").close()
    with pytest.raises(ConfigurationError, match="environment: abc in the run, other now"):
        RunDirectory.open(tmp_path / "r", CONFIG, "other")


def test_a_directory_of_other_files_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(ConfigurationError, match=r"holds other files \(thesis.tex\)"):
        open_run(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_run_that_died_while_it_was_created_is_taken_up(tmp_path):
    open_run(tmp_path / "r").close()
    (tmp_path / "r/config.yaml").unlink()
    (tmp_path / "r/events.jsonl").write_bytes(b"")
    (tmp_path / "r/.config.yaml.1.tmp").write_text("half")
    with open_run(tmp_path / "r") as run:
        assert read_config(run.path) == CONFIG


def test_a_second_holder_is_refused_until_the_first_closes(tmp_path):
    with open_run(tmp_path / "r"), pytest.raises(RunBusyError, match="in use by process"):
        open_run(tmp_path / "r")
    open_run(tmp_path / "r").close()


HOLDER = """
import sys, time
from pathlib import Path
from robotrl.rundir import RunDirectory
run = RunDirectory.open(Path(sys.argv[1]), {}, "abc")
print("held", flush=True)
run.stage("long", lambda: time.sleep(600) or {})
"""


def test_another_process_is_named_and_its_death_frees_the_run(tmp_path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "r")]
    holder = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(RunBusyError, match=f"in use by process {holder.pid}"):
        RunDirectory.open(tmp_path / "r", {}, "abc")
    holder.kill()
    holder.communicate()
    with RunDirectory.open(tmp_path / "r", {}, "abc") as run:
        assert run.stage("long", lambda: {"n": 1}) == {"n": 1}


def test_a_completed_stage_is_not_run_again(tmp_path):
    with open_run(tmp_path / "r") as run:
        assert run.stage("base/train", lambda: {"loss": 0.5, "shape": (1, 2)}) == {"loss": 0.5, "shape": [1, 2]}
    with open_run(tmp_path / "r") as run:
        assert run.stage("base/train", lambda: pytest.fail("ran again")) == {"loss": 0.5, "shape": [1, 2]}


def test_an_interrupted_stage_runs_again_from_its_start(tmp_path):
    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), open_run(tmp_path / "r") as run:
        run.stage("a", interrupted)
    with open_run(tmp_path / "r") as run:
        assert run.events.completed("a") is None
        assert run.stage("a", lambda: {"n": 2}) == {"n": 2}
        kinds = [e.kind for e in run.events.read()]
    assert kinds == ["run_created", "stage_started", "stage_started", "stage_done"]


def test_a_stage_records_its_time_with_that_of_its_children(tmp_path):
    def work():
        time.sleep(0.1)
        subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.2: pass"], check=True)
        return {}

    with open_run(tmp_path / "r") as run:
        run.stage("a", work)
    done = stage_results(read_events(tmp_path / "r/events.jsonl"))["a"]
    assert done["wall_s"] > 0.3
    assert done["cpu_s"] > 0.15


def test_text_is_replaced_whole_or_not_at_all(tmp_path):
    with open_run(tmp_path / "r") as run:
        run.write_text_atomic("summary.json", "one")
        path = run.write_text_atomic("rerun/notes/summary.json", "two")
        assert path.read_text() == "two"
        (run.path / "report.html").mkdir()
        with pytest.raises(StorageError, match="A directory stands where a file is expected"):
            run.write_text_atomic("report.html", "three")
        assert not [p for p in run.path.iterdir() if p.name.endswith(".tmp")]


def test_a_file_in_place_of_the_run_is_a_clear_error(tmp_path):
    (tmp_path / "r").write_text("")
    with pytest.raises(StorageError, match="A file stands where a directory is expected"):
        open_run(tmp_path / "r")


FULL = """
import resource, sys
from pathlib import Path
from robotrl.errors import StorageError
from robotrl.rundir import RunDirectory
run = RunDirectory.open(Path(sys.argv[1]), {}, "abc")
run.stage("first", lambda: {"n": 1})
resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))
try:
    run.stage("second", lambda: {"text": "x" * 1000})
except StorageError as error:
    sys.exit(f"refused: {error}")
"""


def test_a_full_disk_is_a_clear_error_and_completed_stages_stay(tmp_path):
    command = [sys.executable, "-c", FULL, str(tmp_path / "r")]
    result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert "refused: cannot append to" in result.stderr
    with RunDirectory.open(tmp_path / "r", {}, "abc") as run:
        assert run.events.completed("first")["result"] == {"n": 1}
        assert run.events.completed("second") is None


@pytest.mark.parametrize(("content", "message"), [("a: [", "not readable as YAML"), ("- 1", "expected a mapping")])
def test_a_damaged_configuration_is_a_clear_error(tmp_path, content, message):
    open_run(tmp_path / "r").close()
    (tmp_path / "r/config.yaml").write_text(content)
    with pytest.raises(DataError, match=message):
        open_run(tmp_path / "r")


def test_a_path_without_a_run_is_a_clear_error(tmp_path):
    with pytest.raises(ConfigurationError, match="is not a run directory"):
        read_config(tmp_path)
