"""What a real training records is what `robotrl data lineage` needs."""

import json

import pytest

from robotrl.cli import main
from robotrl.data.store import EpisodeStore
from robotrl.provenance import code_fingerprint


@pytest.mark.slow
def test_a_trained_version_names_every_episode_and_annotation_behind_it(capsys, tmp_path):
    run = tmp_path / "run"
    assert main(["collect", "episodes=4", "worlds=2", f"run={run}"]) == 0
    slipped = EpisodeStore.open(run / "store").snapshot().ids[0]
    assert main(["data", "relabel", str(run), slipped, "--outcome", "failure", "--reason", "it slipped"]) == 0
    assert main(["train", str(run), "updates=1", "validation=0.3"]) == 0
    capsys.readouterr()
    assert main(["data", "lineage", str(run), "0", "--json"]) == 0
    (training,) = json.loads(capsys.readouterr().out)

    store = EpisodeStore.open(run / "store")
    annotated = store.annotations("labels", training["labels"])
    assert training["labels"] == "version-0"
    assert 0 < len(training["episodes"]) < len(annotated.columns)
    assert all(annotated.columns[i]["weight"].any() for i in training["episodes"])
    assert slipped not in training["episodes"] and training["made_from"]["corrections"] == ["000001"]
    recorded, made_from = training["recorded"], training["made_from"]
    assert recorded["snapshot"] == made_from["snapshot"] == store.snapshot().fingerprint
    assert recorded["code"] == made_from["code"] == code_fingerprint()
    assert (recorded["start"], recorded["updates"], made_from["critic"]) == (None, 1, None)
    assert made_from["made_by"] == made_from["recipe"]["_target_"] == "robotrl.labels.weights.Mixture"
    assert made_from["stages"] == ["demonstrations"]

    assert main(["data", "lineage", str(run), "--episode", training["episodes"][0], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["policies"] == {"0": ["0"]}
