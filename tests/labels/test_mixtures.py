from dataclasses import replace
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robotrl.configuration import compose_config
from robotrl.errors import ConfigurationError, DataError
from robotrl.interfaces import Labeler
from robotrl.labels.mass import Mass
from robotrl.labels.weights import Downweight, Mixture
from robotrl.parts import Parts
from robotrl.types import Episode, Outcome
from tests.builders import episode, without_outcome


def demo(ticks: int = 60, seed: int = 0, outcome: Outcome = "success") -> Episode:
    made = episode(ticks, seed, outcome, takeover=None)
    return replace(made, meta=replace(made.meta, source="demonstration"))


EPISODES = [
    demo(60, 0),
    episode(80, 1, "success", takeover=None),
    episode(90, 2, "failure", takeover=None),
    episode(100, 3, "success", takeover=(40, 60)),
    episode(100, 4, "failure", takeover=(40, 60)),
    demo(60, 5, "failure"),
    without_outcome(episode(50, 6, takeover=None)),
]
RECIPES = {
    name: cast(Mixture, Parts(compose_config("improve", [f"labels={name}"])).labels())
    for name in ("demonstrations", "successes", "interventions", "corrections")
}


def shared(corrections: float, successes: float) -> Mixture:
    rest = 1 - corrections - successes
    return Mixture({"demonstrations": rest, "corrections": corrections, "successes": successes})


def used(columns, index: int) -> np.ndarray:
    np.testing.assert_array_equal(columns[index]["weight"] > 0, columns[index]["target"] > 0)
    return np.flatnonzero(columns[index]["target"])


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_every_recipe_labels_all_ticks_with_mass_one(recipe: Mixture):
    assert isinstance(recipe, Labeler)
    columns = recipe.label(EPISODES)
    for item, found in zip(EPISODES, columns, strict=True):
        assert found["weight"].shape == found["target"].shape == (item.length,)
        assert found["weight"].dtype == found["target"].dtype == np.float32
    assert sum(float(c["weight"].sum()) for c in columns) == pytest.approx(1, abs=1e-5)
    assert Mass.of(EPISODES, columns).failure_share == 0


def test_corrections_use_what_the_recipe_says_and_nothing_else():
    columns = RECIPES["corrections"].label(EPISODES)
    np.testing.assert_array_equal(used(columns, 0), np.arange(60))
    np.testing.assert_array_equal(used(columns, 1), np.arange(80))
    np.testing.assert_array_equal(used(columns, 3), np.arange(40, 100))
    np.testing.assert_array_equal(used(columns, 4), np.arange(40, 60))
    for left_out in (2, 5, 6):
        assert used(columns, left_out).size == 0


def test_shares_of_the_mass_are_as_asked():
    mass = Mass.of(EPISODES, shared(0.5, 0.2).label(EPISODES))
    assert mass.corrections == pytest.approx(0.5, abs=1e-5)
    assert mass.autonomous == pytest.approx(0.2, abs=1e-5)
    assert mass.demonstrations == pytest.approx(0.3, abs=1e-5)


def test_a_part_without_ticks_gives_its_share_to_the_others():
    mass = Mass.of(EPISODES[:3], shared(0.5, 0.2).label(EPISODES[:3]))
    assert mass.demonstrations == pytest.approx(0.6, abs=1e-5)
    assert mass.autonomous == pytest.approx(0.4, abs=1e-5)


def test_successes_only_is_uniform_over_ticks():
    columns = RECIPES["successes"].label(EPISODES)
    weights = np.concatenate([c["weight"] for c in columns])
    assert len(np.unique(weights[weights > 0])) == 1
    assert Mass.of(EPISODES, columns).effective_share == pytest.approx(1)
    np.testing.assert_array_equal(used(columns, 3), np.arange(60, 100))


def test_interventions_only_leaves_the_policys_ticks_out():
    columns = RECIPES["interventions"].label(EPISODES)
    np.testing.assert_array_equal(used(columns, 3), np.arange(40, 60))
    assert Mass.of(EPISODES, columns).autonomous == 0


def test_harmful_stretches_of_successes_are_drawn_less_when_a_critic_may_be_used():
    recipe = Mixture({"demonstrations": None, "successes": None}, Downweight(ticks=8, below=-0.15, factor=0.1))
    value = np.full(81, 0.8, np.float32)
    value[30:] = 0.4
    scores = [{"value": np.full(e.length + 1, 0.5, np.float32)} for e in EPISODES]
    scores[1] = {"value": value}
    plain, weighed = recipe.label(EPISODES)[1]["weight"], recipe.label(EPISODES, scores)[1]["weight"]
    ratio = weighed / plain
    np.testing.assert_allclose(ratio[22:30] / ratio[0], 0.1, rtol=1e-5)
    assert np.ptp(np.delete(ratio, np.arange(22, 30))) < 1e-6
    np.testing.assert_array_equal(recipe.label(EPISODES, scores)[1]["target"], recipe.label(EPISODES)[1]["target"])
    assert recipe.label(EPISODES, scores)[0]["weight"][0] / recipe.label(EPISODES)[0]["weight"][0] > 1


def test_failures_in_the_mass_are_counted():
    columns = [{"weight": np.ones(e.length, np.float32)} for e in EPISODES]
    mass = Mass.of(EPISODES, columns)
    assert mass.failure_share == pytest.approx((90 + 80) / sum(e.length for e in EPISODES))
    assert mass.demonstrations + mass.corrections + mass.autonomous == pytest.approx(1)
    assert sum(count for _, _, count in mass.histogram) == mass.ticks == sum(e.length for e in EPISODES)
    assert mass.histogram[-1][1] == pytest.approx(1)


@given(st.permutations(range(len(EPISODES))), st.floats(0.05, 0.7), st.floats(0.05, 0.25))
@settings(max_examples=20, deadline=None)
def test_the_order_of_episodes_does_not_matter(order: list[int], share: float, successes: float):
    recipe = shared(share, successes)
    straight, mixed = recipe.label(EPISODES), recipe.label([EPISODES[i] for i in order])
    for place, index in enumerate(order):
        np.testing.assert_allclose(mixed[place]["weight"], straight[index]["weight"], rtol=1e-5)


def test_impossible_recipes_and_empty_results_are_named():
    with pytest.raises(ConfigurationError, match="'surprises'"):
        Mixture({"surprises": 1.0})
    with pytest.raises(ConfigurationError, match="expected all None"):
        Mixture({"demonstrations": 1.0, "successes": None})
    with pytest.raises(ConfigurationError, match="shares"):
        shared(0.9, 0.2)
    with pytest.raises(DataError, match="nothing to train on"):
        RECIPES["demonstrations"].label(EPISODES[1:5])
    with pytest.raises(DataError, match="1 scores for 7"):
        RECIPES["successes"].label(EPISODES, [{}])
