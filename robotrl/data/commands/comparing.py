"""`diff` and `lineage`: what changed between annotations, and what a policy was made from."""

import shlex
from argparse import Namespace
from pathlib import Path

from robotrl.data.annotations import Annotations, list_annotations
from robotrl.data.commands.locate import open_store, policies_of
from robotrl.data.diff import AnnotationDifference, compare_annotations
from robotrl.data.lineage import KIND, Training, policy_versions, trace, trained_on
from robotrl.data.store import EpisodeStore
from robotrl.errors import ConfigurationError, unknown_name
from robotrl.terminal.output import as_json, heading, hint, pairs, shown, table
from robotrl.terminal.parser import Parser, Subcommand


def _diff_arguments(parser: Parser) -> None:
    parser.store()
    parser.add_argument("before", metavar="A", help=f"kind/version, or a version of '{KIND}'")
    parser.add_argument("after", metavar="B", help="the version to compare it with")
    parser.json()


def _diff(options: Namespace) -> None:
    store = open_store(options.store)
    found = compare_annotations(_annotations(store, options.before), _annotations(store, options.after))
    if options.json:
        as_json(found)
        return
    _print_diff(found)


def _annotations(store: EpisodeStore, name: str) -> Annotations:
    kind, _, version = name.rpartition("/")
    known = ["/".join(pair) for pair in list_annotations(store.root / "annotations")]
    if f"{kind or KIND}/{version}" not in known:
        raise unknown_name("annotation", name, known)
    return store.annotations(kind or KIND, version)


def _print_diff(found: AnnotationDifference) -> None:
    if found.equal:
        print("  the same values for the same episodes")
    headers = ("column", "ticks", "changed", "mean diff", "max diff", "largest at")
    table(
        headers,
        [
            (c.name, c.ticks, c.changed, f"{c.mean:.4g}", f"{c.largest:.4g}",
             "-" if c.where is None else f"{c.where[0]} tick {c.where[1]}")
            for c in found.columns
        ],
    )  # fmt: skip
    pairs(
        {
            "columns added": ", ".join(found.columns_added),
            "columns removed": ", ".join(found.columns_removed),
            "episodes added": f"{len(found.added)}: {shown(found.added)}" if found.added else "",
            "episodes removed": f"{len(found.removed)}: {shown(found.removed)}" if found.removed else "",
        }
    )
    if found.lineage:
        heading("lineage")
        pairs({key: f"{before} -> {after}" for key, (before, after) in found.lineage.items()})


def _lineage_arguments(parser: Parser) -> None:
    parser.add_argument("run", metavar="RUN", type=Path, help="a run directory")
    parser.add_argument("version", metavar="VERSION", nargs="?", help="of a policy: what it was trained on")
    parser.add_argument("--episode", metavar="ID", help="the reverse: which policies were trained on the episode")
    parser.json()


def _lineage(options: Namespace) -> None:
    if (options.version is None) == (options.episode is None):
        raise ConfigurationError("expected either VERSION or --episode ID: one of them, and not both")
    store = open_store(options.run)
    if options.version is not None:
        _print_trainings(store, options)
    else:
        _print_policies(store, options)


def _print_trainings(store: EpisodeStore, options: Namespace) -> None:
    trainings = trace(store, policies_of(store), options.version)
    if options.json:
        as_json(trainings)
        return
    metas = {entry.episode_id: entry.meta for entry in store.snapshot().entries}
    for training in trainings:
        _print_training(training)
        rows = [(i, metas[i].stage, metas[i].source) if i in metas else (i, "removed", "") for i in training.episodes]
        table(("episode", "stage", "source"), rows)
    print()
    hint(f"robotrl data lineage {shlex.quote(str(options.run))} --episode ID")


def _print_training(training: Training) -> None:
    heading(f"version {training.version}: {len(training.episodes)} episodes")
    made_from = {f"labels {key}": value for key, value in training.made_from.items()}
    pairs({"labels": f"{KIND}/{training.labels}", **{k: v for k, v in training.recorded.items() if k != "labels"}})
    pairs(made_from)


def _print_policies(store: EpisodeStore, options: Namespace) -> None:
    snapshot, policies = store.snapshot(), policies_of(store)
    (episode,) = snapshot.resolve([options.episode])
    found = trained_on(store, policies, episode)
    if options.json:
        as_json({"episode": episode, "policies": found})
        return
    print(f"  {len(found)} of {len(policy_versions(policies))} policy versions were trained on {episode}")
    table(
        ("version", "how"),
        [(v, "directly" if v in via else f"through version {', '.join(via)}") for v, via in found.items()],
    )


DIFF = Subcommand(
    "what changed between two annotations", _diff_arguments, "runs/mine labels/base labels/round-1", _diff
)
LINEAGE = Subcommand("what trained a policy, or what an episode trained", _lineage_arguments, "runs/mine 1", _lineage)
