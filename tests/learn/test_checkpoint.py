import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from robotrl.errors import DataError, RobotRLError
from robotrl.learn.checkpoint import load_lineage, load_policy, save_policy
from tests.policies.builders import policy, spec, windows


@pytest.fixture
def saved(tmp_path):
    directory = tmp_path / "policies" / "3"
    save_policy(directory, policy(version=3), spec(), {"parent": 2, "updates": 1500})
    return directory


def edit(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def rewrite(directory, change):
    """Change the tensors and make the hash fit again."""
    import hashlib

    tensors = load_file(directory / "weights.safetensors")
    change(tensors)
    save_file(tensors, directory / "weights.safetensors")
    digest = hashlib.sha256((directory / "weights.safetensors").read_bytes()).hexdigest()
    edit(directory / "spec.json", sha256=digest)


def test_a_saved_policy_comes_back_to_the_bit(saved):
    original, loaded = policy(version=3), load_policy(saved, spec())
    batch = windows(5)
    noise = np.random.default_rng(0).standard_normal(batch.actions.shape).astype(np.float32)
    expected = original.sample(original.context(batch.states, {}), noise)
    np.testing.assert_array_equal(loaded.sample(loaded.context(batch.states, {}), noise), expected)
    assert loaded.version == 3
    assert load_lineage(saved) == {"parent": 2, "updates": 1500}
    assert sorted(p.name for p in saved.iterdir()) == ["lineage.json", "spec.json", "weights.safetensors"]


def test_a_version_is_not_overwritten_unless_asked(saved):
    with pytest.raises(DataError, match="exists already"):
        save_policy(saved, policy(seed=1), spec(), {})
    save_policy(saved, policy(seed=1), spec(), {"again": True}, replace=True)
    assert load_lineage(saved) == {"again": True}
    assert [p.name for p in saved.parent.iterdir()] == ["3"]


def test_missing_extra_and_misshapen_tensors_are_named(saved):
    rewrite(saved, lambda t: t.pop("network.inlet.bias"))
    with pytest.raises(DataError, match=r"missing \['network.inlet.bias'\]"):
        load_policy(saved, spec())
    rewrite(saved, lambda t: t.update({"network.inlet.bias": torch.zeros(7)}))
    with pytest.raises(DataError, match=r"'network.inlet.bias' is \(7,\)"):
        load_policy(saved, spec())
    rewrite(saved, lambda t: t.update({"network.inlet.bias": torch.zeros(32), "more": torch.zeros(1)}))
    with pytest.raises(DataError, match=r"unexpected \['more'\]"):
        load_policy(saved, spec())


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused(saved, value):
    rewrite(saved, lambda t: t["network.inlet.bias"].fill_(value))
    with pytest.raises(DataError, match="NaN or infinity"):
        load_policy(saved, spec())


def test_a_truncated_or_altered_file_is_refused(saved):
    path = saved / "weights.safetensors"
    whole = path.read_bytes()
    for size in (0, 5, 100, len(whole) - 3):
        path.write_bytes(whole[:size])
        with pytest.raises(DataError, match=r"weights\.safetensors"):
            load_policy(saved, spec())
    path.write_bytes(whole[:-4] + b"\0\0\1\0")
    with pytest.raises(DataError, match="SHA-256"):
        load_policy(saved, spec())
    path.unlink()
    with pytest.raises(DataError, match="is missing"):
        load_policy(saved, spec())


def test_a_policy_of_another_task_robot_or_spec_is_refused(saved):
    with pytest.raises(DataError, match="for task 'insert', expected 'pick_place'"):
        load_policy(saved, spec("pick_place"))
    with pytest.raises(DataError, match="for robot 'arm', expected 'panda'"):
        load_policy(saved, replace(spec(), robot="panda"))
    renamed = replace(spec().state, elements=("joint.0", "joint.1", "opening", "tool_to_goal.y", "constant"))
    with pytest.raises(DataError, match=r"tool_to_goal.x.*tool_to_goal.y"):
        load_policy(saved, replace(spec(), state=renamed))
    narrower = replace(spec().action, high=(1.0, 1.0, 0.08))
    with pytest.raises(DataError, match="bounds differ"):
        load_policy(saved, replace(spec(), action=narrower))


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("os.system", "refusing to import"),
        ("builtins.eval", "refusing to import"),
        ("policies_evil.Flow", "refusing to import"),
        ("policies.flow.Nothing", "no policy class"),
        ("policies.nothing.Flow", "no policy class"),
        ("policies.networks.ResidualMLP", "is not a policy class"),
        ("robotrl.specs.ArraySpec", "is not a policy class"),
    ],
)
def test_only_policy_classes_of_this_project_are_imported(saved, target, message):
    edit(saved / "spec.json", _target_=target)
    with pytest.raises(DataError, match=message):
        load_policy(saved, spec())


def test_broken_descriptions_are_named(saved, tmp_path):
    edit(saved / "spec.json", config={"width": 32, "surprise": 1})
    with pytest.raises(DataError, match="surprise"):
        load_policy(saved, spec())
    (saved / "spec.json").write_text("{")
    with pytest.raises(DataError, match="not valid JSON"):
        load_policy(saved, spec())
    (saved / "spec.json").write_text("{}")
    with pytest.raises(DataError, match="lacks"):
        load_policy(saved, spec())
    with pytest.raises(DataError, match="is missing"):
        load_policy(tmp_path / "nowhere", spec())


def test_a_directory_that_cannot_be_written_is_an_error_one_can_act_on(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RobotRLError, match="file"):
        save_policy(tmp_path / "file" / "1", policy(), spec(), {})
