"""Decisions of the outer loop: which policy is promoted."""
