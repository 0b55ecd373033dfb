"""The runner of `make fuzz`: it ends in time, goes on while there is time, and fails where a round fails."""

import pytest

from tests.fuzz.__main__ import rounds


@pytest.mark.parametrize(("seconds", "lasts", "number"), [(100, 30, 3), (100, 50, 2), (10, 30, 1), (0, 1, 1)])
def test_a_round_that_would_not_fit_is_not_begun(seconds, lasts, number):
    now = [0.0]

    def run(_):
        now[0] += lasts
        return 0

    assert rounds(seconds, run, lambda: now[0]) == (number, 0)


def test_the_first_failure_ends_it():
    seen = []
    assert rounds(1e9, lambda number: seen.append(number) or (7 if number == 3 else 0)) == (3, 7)
    assert seen == [1, 2, 3]
