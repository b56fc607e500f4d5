"""Experts: feedback laws that solve the tasks from any state, for demonstrations and for the simulated operator."""

from sim.experts.base import Expert, ExpertPolicy

__all__ = ["Expert", "ExpertPolicy"]
