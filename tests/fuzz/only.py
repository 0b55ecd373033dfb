"""A pytest plugin for `python -m tests.fuzz`: keeps the tests that hypothesis drives, wherever they stand, and no others."""

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out every test that would do the same in each round."""
    driven = [item for item in items if getattr(getattr(item, "obj", None), "is_hypothesis_test", False)]
    config.hook.pytest_deselected(items=[item for item in items if item not in driven])
    items[:] = driven
