import signal
import subprocess
import sys
import time
from functools import partial

import pytest
import yaml

from robotrl.cli import COMMANDS, main
from robotrl.configuration import compose_config, group_choices
from robotrl.data.store import EpisodeStore

# Parts under another name than their group's ("parts to choose" lists the groups).
UNLISTED = {"single", "base_labels", "fine_tuning"}


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    out, err = capsys.readouterr()
    return code, out, err


def test_usage_lists_every_command_and_where_to_start(capsys):
    code, out, _ = run(capsys)
    assert code == 0
    assert all(name in out for name in COMMANDS)
    assert "robotrl improve" in out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_every_option_with_its_default(capsys, command):
    code, out, _ = run(capsys, command, "--help")
    assert code == 0
    listed = out.partition("default values:\n")[2].partition("\n\n")[0]
    options = {line.partition(":")[0].strip() for line in listed.splitlines()}
    assert options == {str(key) for key in compose_config(command, []) if not group_choices(str(key))} - UNLISTED


def test_help_says_what_the_options_of_view_mean(capsys):
    _, out, _ = run(capsys, "view", "--help")
    assert "robotrl view RUN" in out
    assert all(word in out for word in ("--web", "--export", "episode"))


def test_a_long_list_of_names_is_not_printed_but_the_near_ones_are(capsys, tmp_path):
    _, _, err = run(capsys, "improve", "demonstratons=3", f"run={tmp_path}")
    assert "--cfg job" in err
    assert len(err) < 400


def test_cfg_prints_the_configuration_and_runs_nothing(capsys, tmp_path):
    code, out, _ = run(capsys, "improve", "--cfg", "job", f"run={tmp_path / 'never'}", "seed=3")
    assert code == 0
    assert "seed: 3" in out
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("imprve",), "Did you mean 'improve'"),
        (("improve", "task=insrt"), "Did you mean 'insert'"),
        (("improve", "policy=act"), "no policy is called 'act'"),
        (("improve", "demonstratons=3"), "Did you mean 'demonstrations'"),
        (("improve", "--vdeo"), "Did you mean '--video'"),
        (("improve", "rounds=0"), "rounds=0: expected at least 1"),
        (("improve", "final_episodes=-1"), "final_episodes=-1"),
        (("improve", "seed=1000"), "expected 0..999"),
        (("improve", "rounds=two"), "rounds"),
        (("evaluate", "episodes=0"), "asked for 0 seeds"),
        (("collect", "episodes=0"), "asked for 0 seeds"),
        (("evaluate", "seeds=finale", "episodes=2"), "Did you mean 'final'"),
        (("evaluate", "episodes=2"), "policies/0"),
        (("branch", "tick=3"), "needs episode=…"),
        (("branch", "episode=1", "tick=3"), "no episode is called '1'"),
        (("branch", "episode=1", "tick=soon"), "branch.tick"),
        (("branch", "episode=1", "tick=3", "by=exprt"), "exprt"),
        (("branch", "episode=1", "tick=3", "copies=0"), "copies=0: expected at least 1"),
        (("view",), "needs run=…"),
        (("view", "nowhere"), "nowhere"),
        (("report", "nowhere"), "nowhere"),
        (("improve", "data=nowhere"), "not an episode store"),
    ],
)
def test_a_mistake_ends_with_one_message_that_says_what_to_do(capsys, tmp_path, arguments, told):
    where = () if arguments[0] in ("view", "report", "imprve") else (f"run={tmp_path / 'run'}",)
    code, _, err = run(capsys, *arguments, *where)
    assert code == 2
    assert told in err
    assert err.startswith("error: ") and "Traceback" not in err


def test_a_run_directory_that_is_a_file_is_refused(capsys, tmp_path):
    path = tmp_path / "file"
    path.write_text("mine")
    code, _, err = run(capsys, "collect", "episodes=1", f"run={path}")
    assert (code, path.read_text()) == (2, "mine")
    assert str(path) in err


def test_collect_then_evaluate_refuses_a_run_of_another_task(capsys, tmp_path):
    assert run(capsys, "collect", "task=pick_place", "episodes=2", "worlds=2", f"run={tmp_path}")[0] == 0
    code, _, err = run(capsys, "collect", "task=insert", "stage=more", "episodes=2", f"run={tmp_path}")
    assert code == 2
    assert "environment" in err


def test_a_stored_episode_is_gone_on_with_and_repeating_it_adds_only_what_is_new(capsys, tmp_path):
    assert run(capsys, "collect", "episodes=2", "worlds=2", f"run={tmp_path}")[0] == 0
    store = EpisodeStore.open(tmp_path / "store")
    # Ids are text, also those that read as numbers.
    parent = store.snapshot().entries[0]
    branch = ("branch", str(tmp_path), f"episode={parent.episode_id[:6]}", "tick=30", "by=expert", "worlds=2")
    for copies, total in ((2, 4), (3, 5), (3, 5)):
        code, out, _ = run(capsys, *branch, f"copies={copies}")
        assert code == 0
        assert f"of {copies} succeeded" in out
        assert len(store.snapshot()) == total
    children = store.snapshot().filter(stage="branches").entries
    assert {(c.meta.parent, c.meta.parent_tick) for c in children} == {(parent.episode_id, 30)}
    # And so is what went on.
    child = children[0].episode_id
    assert run(capsys, "branch", str(tmp_path), f"episode={child}", "tick=40", "by=expert", "copies=1")[0] == 0
    code, _, err = run(capsys, "branch", str(tmp_path), f"episode={child}", "tick=4000", "by=expert")
    assert code == 2
    assert "expected a tick from 0 to" in err


def test_an_id_of_digits_is_not_a_number(capsys):
    _, out, _ = run(capsys, "branch", "episode=12e4", "tick=3", "--cfg", "job")
    assert yaml.safe_load(out)["episode"] == "12e4"


def test_a_full_disk_is_one_message_and_keeps_what_was_committed(tmp_path):
    code = (
        "import resource, signal, sys\n"
        "from robotrl.cli import main\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (30000, 30000))\n"
        f"sys.exit(main(['collect', 'episodes=4', 'worlds=2', 'run={tmp_path / 'run'}']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ") and "Traceback" not in done.stderr


def test_ctrl_c_says_that_nothing_is_lost_and_resuming_finishes(tmp_path):
    command = [sys.executable, "-m", "robotrl.cli", "collect", "episodes=12", "worlds=2", f"run={tmp_path / 'run'}"]
    # A shell starts background jobs with SIGINT ignored, and children inherit that.
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=heed)
    writers = tmp_path / "run" / "store" / "writers"
    while process.poll() is None and sum(j.read_bytes().count(b"\n") for j in writers.glob("*/journal.jsonl")) < 2:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in err and "Traceback" not in err
    (journal,) = writers.glob("*/journal.jsonl")
    before = journal.read_bytes()
    assert subprocess.run(command, capture_output=True, timeout=120).returncode == 0
    after = journal.read_bytes()
    assert after.startswith(before)
    assert after.count(b"\n") == 12
