"""The steps of the loop, each on its own: demonstrate, roll out, fit the critic, label, train, evaluate.

`improve.py` puts them in order; the commands `collect`, `train`, `evaluate` and `label` run one of them. A step
reads and writes the run directory only, so that a resumed run goes on from what is on disk.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from robotrl.configuration import identity, plain
from robotrl.critics.gate import judge_critic
from robotrl.critics.success import SuccessCritic
from robotrl.data.cache import TrainingCache
from robotrl.data.camera_layers import layer_frames
from robotrl.data.corrections import read_corrections
from robotrl.data.durable import ensure_directory
from robotrl.data.images import Images, images_of_every_tick, recorded
from robotrl.data.snapshot import StoreSnapshot
from robotrl.data.store import EpisodeStore
from robotrl.data.windows import WindowSampler, validation_split
from robotrl.errors import ConfigurationError, DataError
from robotrl.evaluate import Evaluation, evaluate
from robotrl.interfaces import Columns, Policy, Sink
from robotrl.labels.mass import REFUSE_FAILURE_SHARE, Mass
from robotrl.learn.checkpoint import SavedPolicy, save_policy
from robotrl.learn.learner import fit, fit_normalizer
from robotrl.parts import Parts
from robotrl.progress import bar
from robotrl.provenance import code_fingerprint
from robotrl.rollout.branching import BranchConfig, joined
from robotrl.rollout.loop import Execution, Origin, Rollout
from robotrl.rundir import RunDirectory
from robotrl.seeds import seed_range
from robotrl.types import Branch, Episode, EpisodeMeta, Int64

Result = dict[str, Any]
"""What a step leaves in the event log; JSON."""


@dataclass(frozen=True)
class Steps:
    """The steps, for one run. `seed` of the run decides starts, initial weights and batches."""

    parts: Parts
    run: RunDirectory
    seed: int
    worlds: int

    @cached_property
    def identity(self) -> str:
        """What episode ids are made from beside stage and seed."""
        return identity(self.parts.config)

    @cached_property
    def store(self) -> EpisodeStore:
        """The run's episodes."""
        return EpisodeStore.create(self.run.store, self.parts.spec)

    def starts(self, use: str, count: int, block: int = 0) -> Int64:
        """`count` seeds of the range `use`; training starts differ between run seeds, evaluation starts do not."""
        offset = block * 10_000 + (self.seed * 1_000_000 if use == "train" else 0)
        return seed_range(use).block(count, offset)

    def demonstrate(self, stage: str, starts: Int64) -> Result:
        """Record an expert's episodes; failed ones are stored and never trained on."""
        origin = self._origin(stage, "demonstration", operator="expert", solo=True)
        execution = Execution(execute=1)
        environment, demonstrator = self.parts.environment(self.worlds), self.parts.demonstrator(self.worlds)
        pushes, every = self.parts.pushes(), self._camera_every
        rollout = Rollout(environment, demonstrator, execution, origin, pushes=pushes, camera_every=every)
        return self._collect(rollout, starts, stage)

    def import_demonstrations(self, stage: str, source: Path) -> Result:
        """Copy the demonstrations of another store of the same task into this run."""
        store = EpisodeStore.open(source, self.parts.spec)
        episodes, corrections = store.snapshot().filter(source="demonstration"), read_corrections(store)
        if not len(episodes):
            raise DataError(f"{source} holds no demonstrations: collect some with 'robotrl collect'")
        metas = [replace(corrections.meta(entry.meta), stage=stage) for entry in episodes.entries]
        with self.store.writer() as writer:
            for episode, meta in zip(episodes.episodes(), metas, strict=True):
                writer.on_episode(replace(episode, meta=meta))
        return _tally([meta.outcome == "success" for meta in metas], 0, 0.0, 0.0, 0.0, 0)

    def roll_out(self, stage: str, version: int, starts: Int64) -> Result:
        """Autonomous episodes of a policy version, single draws."""
        policy = self.parts.selector(self.policy(version), "single")
        rollout = Rollout(
            self.parts.environment(self.worlds),
            policy,
            self.parts.execution(),
            self._origin(stage),
            camera_every=self._camera_every,
        )
        return self._collect(rollout, starts, stage)

    def take_over(self, stage: str, version: int, critic: str, starts: Int64, fleet: int) -> Result:
        """Episodes of a policy version under a person's eyes, until the person's budget is spent."""
        operator = self.parts.operator(fleet, self.seed)
        if operator is None:
            raise ConfigurationError("operator=none cannot take over: choose another operator")
        policy = self.parts.selector(self.policy(version), "single")
        rollout = Rollout(
            self.parts.environment(fleet),
            policy,
            self.parts.execution(),
            self._origin(stage, operator="simulated"),
            operator,
            self.critic(critic),
            camera_every=self._camera_every,
        )
        return self._collect(rollout, starts, stage)

    def branch(self, how: BranchConfig) -> tuple[EpisodeMeta, list[EpisodeMeta]]:
        """Go on from a state of a stored episode.

        Returns what is known of the parent and of all its continuations, those included that were there before.
        """
        [name] = self.store.snapshot().resolve([how.episode])
        parent = self._whole(name)
        if how.by == "expert":
            policy, execution = self.parts.demonstrator(self.worlds), Execution(execute=1)
            origin = self._origin(how.stage, "demonstration", operator="expert", solo=True)
        else:
            policy, execution = self.parts.selector(self.policy(how.version), "selector"), self.parts.execution()
            origin = self._origin(how.stage)
        starts = [Branch(parent, how.tick, copy) for copy in range(how.copies)]
        wanted = {origin.episode_id(parent.meta.seed, start): start for start in starts}
        there = self.store.snapshot().ids
        if missing := [start for name, start in wanted.items() if name not in there]:
            environment, every = self.parts.environment(self.worlds), self._camera_every
            self._collect(Rollout(environment, policy, execution, origin, camera_every=every), missing, how.stage)
        return parent.meta, [entry.meta for entry in self.store.snapshot().select(wanted).entries]

    def _whole(self, name: str) -> Episode:
        """The stored episode with what went before it in its parents."""
        snapshot = self.store.snapshot()
        episode = snapshot.read(*snapshot.select([name]).entries)
        return joined(self._whole(episode.meta.parent), episode) if episode.meta.parent else episode

    def fit_critic(self, name: str, stages: Sequence[str]) -> Result:
        """Learn success probability from the autonomous episodes of `stages`, judge it, and save it as `name`."""
        critic, snapshot = self.parts.critic(self.seed), self._of(stages)
        critic.fit(list(map(read_corrections(self.store).episode, snapshot.episodes())))
        ensure_directory(self._critic_path(name).parent)
        critic.save(self._critic_path(name))
        lineage: Result = {"stages": list(stages), "snapshot": snapshot.fingerprint, "code": code_fingerprint()}
        self.run.write_text_atomic(f"critics/{name}.lineage.json", json.dumps(lineage, indent=2) + "\n")
        return critic.calibration.to_json()

    def label(self, name: str, labels: str, stages: Sequence[str], critic: str | None = None) -> Result:
        """Write annotation columns `labels/<name>` for the episodes of `stages`.

        With a saved `critic`, the episodes it was fitted on are scored by its members that did not see them, and the
        critic gate decides whether these scores may change weights.
        """
        snapshot, corrections = self._of(stages), read_corrections(self.store)
        episodes, labeler = list(map(corrections.episode, snapshot.episodes())), self.parts.labels(labels)
        scores = [] if critic is None else self.critic(critic).cross_fit_scores(episodes)
        columns = labeler.label(episodes, scores)
        verdict = None if critic is None else judge_critic(episodes, scores, columns)
        if verdict is not None and not verdict.usable:
            columns = labeler.label(episodes, [])
        mass = Mass.of(episodes, columns)
        if mass.failure_share > REFUSE_FAILURE_SHARE:
            raise ConfigurationError(
                f"labels={labels}: ticks of failures hold {mass.failure_share:.0%} of the sampled mass, at most "
                f"{REFUSE_FAILURE_SHARE:.0%} is safe; choose labels that leave failures out"
            )
        by_id = {e.meta.episode_id: c for e, c in zip(episodes, columns, strict=True)}
        recipe = plain(self.parts.config[labels])
        lineage: Result = {
            "made_by": str(recipe["_target_"]),
            "recipe": recipe,
            "code": code_fingerprint(),
            "snapshot": snapshot.fingerprint,
            "stages": list(stages),
            "corrections": list(corrections.versions),
            "critic": critic,
            "critic_used": verdict is not None and verdict.usable,
            "policy_versions": sorted({int(v) for e in episodes for v in np.unique(e.policy_version) if v >= 0}),
        }
        self.store.annotate("labels", name, by_id, lineage)
        return {"mass": asdict(mass), "critic_gate": None if verdict is None else verdict.to_json()}

    def train(self, version: int, labels: str, updates: int, start: int | None, learner: Mapping[str, Any]) -> Result:
        """Train version `version` on the annotation `labels`, from fresh weights or from the version `start`."""
        annotated = self.store.annotations("labels", labels)
        ids, held_out = validation_split(annotated.columns, self.parts.config.validation)
        policy = self.parts.policy(self.seed) if start is None else self.policy(start)
        config = self.parts.learner(updates=updates, seed=self.seed * 1000 + version, **learner)
        sampler = self._sampler(ids, annotated.columns, policy, config.seed)
        if start is None:
            fit_normalizer(policy, sampler)
        scratch = self.run.path / "checkpoints" / str(version)
        with bar(f"train version {version}", updates) as report:
            result = fit(
                policy, self.parts.objective(), sampler, config, scratch, lambda done, total, _loss: report(done, total)
            )
        trained = cast(Any, result.policy)
        trained.version = version
        lineage: Result = {
            "start": start,
            "labels": labels,
            "updates": updates,
            "validation": self.parts.config.validation,
            "snapshot": self.store.snapshot().select(annotated.columns).fingerprint,
            "critic": annotated.lineage.get("critic"),
            "code": code_fingerprint(),
        }
        # A stage that was interrupted after it saved runs again, and saves the same again.
        save_policy(self.run.policies / str(version), trained, self.parts.spec, lineage, replace=True)
        shutil.rmtree(scratch, ignore_errors=True)
        validation = self._validation_loss(held_out, annotated.columns, trained, config.seed)
        return {"version": version, "updates": updates, "episodes": len(ids), **result.metrics, **validation}

    def evaluate(
        self, version: int, selector: str, starts: Int64, name: str, sinks: tuple[Sink, ...] = ()
    ) -> Evaluation:
        """Success of a version under the part `selector` ("selector" or "single") on `starts`."""
        policy = self.parts.selector(self.policy(version), selector)
        environment = self.parts.environment(self.worlds)
        with bar(name, len(starts)) as report:
            found = evaluate(environment, policy, self.parts.execution(), starts, name, sinks, report)
        environment.close()
        return found

    def record(self, each: int) -> None:
        """Write `each` episodes of every stage, outcome and kind of control as Rerun recordings."""
        from robotrl.view.rerun_sink import RerunSink, few_of_each  # seconds to import

        sink = RerunSink(self.run.rerun, self.parts.spec, few_of_each(each))
        for episode in self.store.snapshot().episodes():
            sink.on_episode(episode)

    def policy(self, version: int) -> SavedPolicy:
        """The saved version."""
        return self.parts.load_policy(self.run.policies / str(version))

    def critic(self, name: str) -> SuccessCritic:
        """The saved critic."""
        critic = self.parts.critic(self.seed)
        critic.load(self._critic_path(name))
        return critic

    @property
    def _camera_every(self) -> int:
        """How often pictures are kept; of every tick where the run's policy learns from them."""
        return 1 if self.parts.sees else self.parts.config.camera_every

    def _sampler(self, ids: Sequence[str], columns: Mapping[str, Columns], policy: Policy, seed: int) -> WindowSampler:
        snapshot = self.store.snapshot().select(ids)
        cache, images = TrainingCache.build(self.store, snapshot), self._images(snapshot, policy)
        return WindowSampler(
            cache,
            columns,
            history=policy.history,
            horizon=policy.chunk_length,
            batch=self.parts.config.batch,
            seed=seed,
            images=images,
        )

    def _images(self, snapshot: StoreSnapshot, policy: Policy) -> Mapping[str, Images]:
        """The pictures that `policy` learns from: recorded with the episodes, or of a layer that was rendered later."""
        layer = self.parts.config.get("pictures", "recorded")
        source = recorded(snapshot) if layer == "recorded" else layer_frames(self.store, layer)
        return images_of_every_tick(self.store, snapshot, policy.cameras, layer, source)

    def _validation_loss(
        self, ids: Sequence[str], columns: Mapping[str, Columns], policy: SavedPolicy, seed: int
    ) -> Result:
        """Mean loss on the episodes that were held out; nothing when none of them has weight."""
        if not any(columns[i]["weight"].any() for i in ids):
            return {}
        windows = self._sampler(ids, columns, policy, seed).sample()
        with torch.inference_mode():
            loss = policy.loss(windows, torch.Generator().manual_seed(seed)).mean()
        return {"validation_loss": float(loss), "validation_episodes": len(ids)}

    def _critic_path(self, name: str) -> Path:
        return self.run.path / "critics" / f"{name}.safetensors"

    def _of(self, stages: Sequence[str]) -> StoreSnapshot:
        snapshot = self.store.snapshot()
        ids = [entry.episode_id for entry in snapshot.entries if entry.meta.stage in stages]
        if not ids:
            raise DataError(f"the store has no episodes of {', '.join(stages)}: collect some first")
        return snapshot.select(ids)

    def _origin(self, stage: str, source: str = "autonomous", operator: str = "", solo: bool = False) -> Origin:
        return Origin(self.identity, stage, source, operator, solo, code_fingerprint())

    def _collect(self, rollout: Rollout, starts: Sequence[Branch] | Int64, stage: str) -> Result:
        """Run episodes into the store; what came of them."""
        success: list[bool] = []
        ticks, operator_s, orient_s, watch_s, takeovers = 0, 0.0, 0.0, 0.0, 0
        with self.store.writer() as writer, bar(stage, len(starts)) as report:
            for episode in rollout.run(starts, writer.spills if self.parts.config.spill else None):
                writer.on_episode(episode)
                success.append(episode.succeeded)
                ticks += episode.length
                operator_s += episode.meta.operator_s
                orient_s += episode.meta.orient_s
                watch_s += episode.meta.watch_s
                takeovers += int(np.count_nonzero(np.diff(episode.intervention.astype(np.int8), prepend=0) > 0))
                report(len(success), len(starts))
        rollout.environment.close()
        return _tally(success, ticks, operator_s, orient_s, watch_s, takeovers)


def _tally(
    success: Sequence[bool], ticks: int, operator_s: float, orient_s: float, watch_s: float, takeovers: int
) -> Result:
    return {
        "episodes": len(success),
        "successes": int(sum(success)),
        "control_steps": ticks,
        "operator_s": operator_s,
        "orient_s": orient_s,
        "watch_s": watch_s,
        "takeovers": takeovers,
    }
