"""Pure functions from episodes (and critic scores) to annotation columns."""
