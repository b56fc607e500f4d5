import pytest
from omegaconf import OmegaConf

from robotrl.cli import COMMANDS
from robotrl.configuration import (
    CHANGES_NO_RESULT,
    compose_config,
    config_directory,
    group_choices,
    identity,
    plain,
    sweep,
    with_run_values,
)
from robotrl.errors import ConfigurationError
from robotrl.parts import Parts
from robotrl.rollout.loop import Execution
from robotrl.rundir import RunDirectory

GROUPS = sorted(p.name for p in config_directory().iterdir() if p.is_dir())


def improve(*overrides: str):
    return compose_config("improve", overrides)


@pytest.mark.parametrize("command", [c for c in COMMANDS if c not in ("view", "report")])
def test_every_command_composes_from_its_defaults(command):
    assert compose_config(command, [])


@pytest.mark.parametrize(("group", "choice"), [(g, c) for g in GROUPS for c in group_choices(g)])
def test_every_choice_of_every_group_composes(group, choice):
    key = {"learner": "learner"}.get(group, group)
    assert improve(f"{key}={choice}") is not None


OWN_TASKS = [task for task in group_choices("task") if not task.startswith("suites/")]


@pytest.mark.parametrize("task", OWN_TASKS)
def test_every_task_builds_all_its_parts(task):
    parts = Parts(improve(f"task={task}"))
    policy = parts.policy(seed=0)
    assert parts.spec.task == task
    assert parts.selector(policy).chunk_length == policy.chunk_length
    assert isinstance(parts.execution(), Execution)
    assert parts.operator(worlds=2, seed=0) is not None
    assert parts.demonstrator(2).chunk_length == 1
    assert parts.gate().looks
    assert parts.learner(updates=3, seed=1).updates == 3
    assert parts.critic(0) and parts.labels() and parts.objective()


@pytest.mark.parametrize("name", group_choices("operator"))
def test_every_operator_is_built_except_none(name):
    operator = Parts(improve(f"operator={name}")).operator(worlds=3, seed=0)
    assert (operator is None) == (name == "none")


@pytest.mark.parametrize("name", group_choices("labels"))
def test_every_labeler_is_built(name):
    assert Parts(improve(f"labels={name}")).labels() is not None


@pytest.mark.parametrize(
    ("override", "near"),
    [
        ("task=insrt", "insert"),
        ("policy=flwo", "flow"),
        ("demonstration=3", "demonstrations"),
        ("operator.config.budgets=3", "operator.config.budget_s"),
        ("selectr=single", "selector"),
    ],
)
def test_a_mistyped_override_is_answered_with_the_nearest_name(override, near):
    with pytest.raises(ConfigurationError, match=f"Did you mean '{near}'"):
        improve(override)


def test_an_override_without_a_value_says_how_to_write_it():
    with pytest.raises(ConfigurationError, match="name=value"):
        improve("task=[")


def test_a_value_that_a_part_refuses_names_the_part_and_the_value():
    parts = Parts(improve("task.environment.task.clearance_m=1"))
    with pytest.raises(ConfigurationError, match="clearance_m"):
        _ = parts.spec


def test_a_sweep_expands_to_every_combination_in_order():
    assert list(sweep(["seed=0,1", "task=insert", "rounds=1,2"])) == [
        ["seed=0", "task=insert", "rounds=1"],
        ["seed=0", "task=insert", "rounds=2"],
        ["seed=1", "task=insert", "rounds=1"],
        ["seed=1", "task=insert", "rounds=2"],
    ]


def test_a_step_takes_what_was_not_overridden_from_the_run(tmp_path):
    stored = OmegaConf.to_container(improve("task=pick_place", "seed=7", f"run={tmp_path}"))
    OmegaConf.save(OmegaConf.create(stored), tmp_path / "config.yaml")
    overrides = [f"run={tmp_path}", "episodes=5"]
    config = with_run_values(compose_config("evaluate", overrides), overrides)
    assert (config.task.name, config.seed, config.episodes) == ("pick_place", 7, 5)
    assert with_run_values(compose_config("evaluate", [*overrides, "seed=1"]), [*overrides, "seed=1"]).seed == 1


@pytest.mark.parametrize("same", ["run=elsewhere", "threads=1", "worlds=3", "recordings=1", "camera_every=5"])
def test_where_and_how_fast_a_run_computes_does_not_change_its_identity(same):
    assert identity(improve(same)) == identity(improve())


@pytest.mark.parametrize(
    "other", ["seed=1", "task=pick_place", "rollouts=10", "single.temperature=1", "operator=stall"]
)
def test_what_a_run_computes_changes_its_identity(other):
    assert identity(improve(other)) != identity(improve())


def test_a_run_that_kept_no_pictures_is_not_resumed_with_pictures(tmp_path):
    # A stage cut short would be stored anew with other content under the same episode ids.
    RunDirectory.open(tmp_path / "r", plain(improve()), "abc", may_differ=CHANGES_NO_RESULT).close()
    with pytest.raises(ConfigurationError, match="camera_every: 0 in the run, 5 now"):
        RunDirectory.open(tmp_path / "r", plain(improve("camera_every=5")), "abc", may_differ=CHANGES_NO_RESULT)
