"""Training: features, objectives, the learner and checkpoints."""
