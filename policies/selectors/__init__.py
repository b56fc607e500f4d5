"""Policies made of a policy and a rule of choice."""
