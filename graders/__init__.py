"""Run a learner's work, observe it, compare it with what is recorded, and say what came of it."""
