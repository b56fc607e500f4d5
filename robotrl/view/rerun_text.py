"""An episode in words: a summary page, and a log of what happened when."""

import numpy as np
import rerun as rr

from robotrl.specs import EnvironmentSpec
from robotrl.types import ControlMode, Episode, Trigger
from robotrl.view.rerun_time import Timeline, runs

_Line = tuple[int, str, str]
"""Tick, level, text."""


def summary(episode: Episode, spec: EnvironmentSpec) -> str:
    """The episode's facts as a Markdown page."""
    meta = episode.meta
    human = int(episode.intervention.sum())
    versions = sorted({int(v) for v in episode.policy_version if v >= 0})
    facts = {
        "task": f"{meta.task} on {spec.robot}: {meta.instruction}",
        "outcome": meta.outcome or "cut, no outcome",
        "ended by": meta.reason,
        "length": f"{episode.length} ticks, {episode.length / spec.control_hz:.2f} s at {spec.control_hz:g} Hz",
        "source": meta.source,
        "stage": meta.stage,
        "seed": str(meta.seed),
        "policy versions": ", ".join(map(str, versions)) or "none",
        "chunks": f"{len(episode.chunks.start_tick)}, of which {int((episode.chunks.start_tick >= 0).sum())} acted",
        "starved ticks": str(int(episode.starved.sum())),
        "person": f"{human} ticks; {meta.operator_s:.1f} s driving, {meta.orient_s:.1f} s turning to it, "
        f"{meta.watch_s:.1f} s watching",
        "branched from": f"{meta.parent} at tick {meta.parent_tick}" if meta.parent else "",
        "episode": meta.episode_id,
        "environment, code": " ".join(filter(None, (meta.environment, meta.code))),
    }
    rows = "\n".join(f"| {name} | {value} |" for name, value in facts.items() if value)
    return f"# {meta.task}: {meta.outcome or 'cut'}\n\n| | |\n|---|---|\n{rows}\n"


def happenings(episode: Episode) -> list[_Line]:
    """Takeovers with their trigger, hand-backs, starved stretches, first success and the end, in order of tick."""
    lines: list[_Line] = []
    previous = int(ControlMode.AUTONOMOUS)
    for start, stop in runs(episode.control_mode):
        mode = int(episode.control_mode[start])
        if mode == ControlMode.AUTONOMOUS and start > 0:
            lines.append((start, "INFO", "handed back to the policy"))
        elif mode != ControlMode.AUTONOMOUS:
            trigger = Trigger(int(episode.trigger[start])).name.lower()
            called = f", called by {trigger}" if episode.trigger[start] and previous == ControlMode.AUTONOMOUS else ""
            lines.append((start, "WARN", f"{ControlMode(mode).name.lower()} for {stop - start} ticks{called}"))
        previous = mode
    lines += [
        (start, "ERROR", f"no action ready for {stop - start} ticks; the robot held")
        for start, stop in runs(episode.starved)
        if episode.starved[start]
    ]
    if episode.success.any():
        lines.append((int(np.argmax(episode.success)), "INFO", "success begins"))
    lines.append((episode.length, "INFO", f"end: {episode.meta.reason}"))
    return sorted(lines, key=lambda line: line[0])


def log_text(recording: rr.RecordingStream, spec: EnvironmentSpec, episode: Episode, timeline: Timeline) -> None:
    """Log the summary page once, and what happened at the ticks it happened."""
    page = rr.TextDocument(summary(episode, spec), media_type=rr.MediaType.MARKDOWN)
    recording.log("summary", page, static=True, strict=True)
    ticks, levels, texts = zip(*happenings(episode), strict=True)
    columns = rr.TextLog.columns(text=list(texts), level=list(levels))
    recording.send_columns("happenings", timeline.at(np.array(ticks)), columns, strict=True)
