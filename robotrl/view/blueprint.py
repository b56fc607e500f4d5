"""How a recording is laid out: the scene on the left; control, critic and actions on the right; words below."""

from collections.abc import Sequence

import rerun as rr
import rerun.blueprint as rrb

from robotrl.specs import EnvironmentSpec
from robotrl.view.rerun_cameras import camera_path

_EYE_M = (1.35, -1.05, 1.0)
_LOOK_AT_M = (0.3, 0.0, 0.25)
_PLOT_COLUMNS = 2


def _actions(spec: EnvironmentSpec) -> rrb.Grid:
    """One plot for every action element: executed, the person's, and the chunks' proposals."""
    plots = [
        rrb.TimeSeriesView(
            origin=rr.new_entity_path(["actions", element]),
            name=f"{element} [{unit}]",
            plot_legend=rrb.PlotLegend(visible=index == 0),
        )
        for index, (element, unit) in enumerate(zip(spec.action.elements, spec.action.units, strict=True))
    ]
    return rrb.Grid(*plots, grid_columns=_PLOT_COLUMNS, name="Actions")


def scene_view() -> rrb.Spatial3DView:
    """The scene, seen from the front and above."""
    return rrb.Spatial3DView(
        origin="/scene",
        name="Scene",
        eye_controls=rrb.EyeControls3D(position=_EYE_M, look_target=_LOOK_AT_M),
        line_grid=rrb.LineGrid3D(visible=False),
    )


def episode_blueprint(spec: EnvironmentSpec, columns: bool = False, cameras: Sequence[str] = ()) -> rrb.Blueprint:
    """The layout for recordings of `spec`.

    Args:
        spec: whose action elements get a plot each.
        columns: whether the recording has annotation columns, which then get a plot of their own.
        cameras: those that have pictures; they come after the scene, or in its place where it is not known.
    """
    scene = scene_view()
    seen = [rrb.Spatial2DView(origin=camera_path(name), name=name) for name in cameras]
    views = [scene, *seen] if spec.scene.frames or not seen else seen
    words = rrb.Tabs(
        rrb.TextDocumentView(origin="/summary", name="Summary"),
        rrb.TextLogView(origin="/happenings", name="What happened"),
        rrb.TimeSeriesView(origin="/chunks", name="Chunks and delay"),
        active_tab=0,
    )
    critic = rrb.TimeSeriesView(origin="/critic", name="Critic and reward", axis_y=rrb.ScalarAxis(range=(-0.05, 1.05)))
    labels = [rrb.TimeSeriesView(origin="/columns", name="Annotations")] if columns else []
    signals = rrb.Vertical(
        rrb.StateTimelineView(origin="/control", name="Control"),
        critic,
        *labels,
        _actions(spec),
        row_shares=[3, 2, *(2 for _ in labels), 5],
    )
    left = views[0] if len(views) == 1 else rrb.Tabs(*views)
    return rrb.Blueprint(
        rrb.Horizontal(rrb.Vertical(left, words, row_shares=[3, 2]), signals, column_shares=[1, 1]),
        rrb.TimePanel(timeline="time", state="collapsed"),
        collapse_panels=True,
    )
