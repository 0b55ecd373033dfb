"""Where a learner's code runs: a scratch folder, a clean environment, and a fresh Jupyter kernel in them."""
