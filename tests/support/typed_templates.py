"""A small template with roots of every type: its roots said once, its formulas by each test."""

from collections.abc import Iterable

_DECLARED = {
    "female": 'type = "boolean"\npublic = true',
    "diabetes": 'type = "boolean"\nshares = 0.12',
    "region": 'type = "category"\nvalues = ["north", "south", "far west"]',
    "pain": 'type = "category"\nvalues = ["none", "some", "much"]\norder = true',
    "job": 'type = "category"\nvalues = ["office", "shop", "farm"]\n'
    "distance = [[0, 1, 2], [1, 0, 1], [2, 1, 0]]",
    "kids": 'type = "count"\nlower = 0\nupper = 12',
    "born": 'type = "date"\nlower = 1920-01-01\nupper = 2020-12-31',
}
ROOTS = tuple(_DECLARED)


def typed_template(rest: str, roots: Iterable[str] = ROOTS) -> str:
    """The text of a template with these roots; `rest` is its target, and what else it has."""
    tables = "".join(f"[roots.{root}]\n{_DECLARED[root]}\n" for root in roots)
    return f'name = "visit"\ntitle = "A visit"\n{tables}{rest}'
