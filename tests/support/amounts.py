"""How many examples a law is tried by: some in every run, all of them in `make test-all`."""

from hypothesis import settings


def examples(*, steady: int, exploring: int) -> settings:
    """Few where the same examples come in every run, many where new ones are looked for."""
    count = steady if settings().derandomize else exploring
    return settings(max_examples=count, deadline=None)
