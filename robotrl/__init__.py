"""robotrl closes the loop on robot policies: roll out, take over, filter, retrain, promote only what is better."""

__version__ = "0.1.0"
