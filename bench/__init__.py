"""Measures this grader and its peers on the same notebooks, and writes docs/benchmarks.md from what was measured."""
