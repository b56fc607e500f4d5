"""Simulators that others wrote, each task an `Environment`; they come with the extra `suites`."""
