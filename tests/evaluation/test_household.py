"""What one member of a household tells about another. Figures are means over 200 households.

`python -m tests.evaluation.test_household` prints the table of docs/guarantees.md.
"""

from fractions import Fraction
from pathlib import Path

import pytest

from rootguard.errors import RootGuardError
from rootguard.evaluation.household import household_figure
from rootguard.session.profile import load_profile
from rootguard.template import load_template
from rootguard.values import RootName

SBP = load_template("vascular").roots[RootName("sbp")]


def test_a_shared_value_is_known_as_well_as_its_draws_together_make_it() -> None:
    """Two draws at epsilon are worth more than one, and no more than one at twice the epsilon."""
    both = household_figure(SBP, correlation=1.0, people=200)
    four = household_figure(SBP, correlation=1.0, members=4, people=200)
    doubled = household_figure(SBP, correlation=1.0, epsilon=Fraction(2, 100), people=200)
    assert four.together < both.together < both.alone < both.nothing
    assert doubled.alone < 1.15 * both.together
    assert both.others == pytest.approx(
        both.alone, rel=0.2
    )  # another's draw is as good as one's own


def test_correlated_values_tell_of_each_other_and_independent_ones_do_not() -> None:
    tied = household_figure(SBP, correlation=0.9, people=200)
    loose = household_figure(SBP, correlation=0.0, people=200)
    assert tied.others < 0.85 * tied.nothing
    assert tied.together < tied.alone
    assert loose.others == pytest.approx(loose.nothing, rel=0.03)
    assert loose.together == pytest.approx(loose.alone, rel=0.03)


def test_a_household_of_one_or_of_no_figures_is_refused() -> None:
    with pytest.raises(ValueError, match="two members"):
        household_figure(SBP, correlation=0.5, members=1)
    with pytest.raises(ValueError, match="mean and sd"):
        household_figure(load_template("meld").roots[RootName("inr")], correlation=0.5)


def test_a_profile_has_no_household(tmp_path: Path) -> None:
    """What is not kept soundly is refused, not skipped."""
    path = tmp_path / "me.toml"
    path.write_text('templates = ["homa"]\nbudget = "0.1"\nhousehold = ["me", "you"]\n')
    with pytest.raises(RootGuardError, match=r"me.toml: household: a key that is not known"):
        load_profile(path)


def table() -> str:
    lines = ["| correlation | members | nothing | others only | own only | all |", "|---" * 6 + "|"]
    for correlation, members in (
        (0.0, 2), (0.25, 2), (0.5, 2), (0.5, 4), (0.9, 2), (1.0, 2), (1.0, 4),
    ):  # fmt: skip
        one = household_figure(SBP, correlation=correlation, members=members)
        found = (one.nothing, one.others, one.alone, one.together)
        cells = " | ".join(f"{error:.1f}" for error in found)
        lines.append(f"| {correlation:g} | {members} | {cells} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())  # noqa: T201
