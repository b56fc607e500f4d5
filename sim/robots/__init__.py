"""Robots as MJCF fragments built from primitives."""
