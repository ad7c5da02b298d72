"""What a program sees of the types: nothing here is interesting to run, mypy checks it."""

from decimal import Decimal
from fractions import Fraction
from typing import assert_type

from rootguard import (
    AsyncSession,
    Guarantee,
    Guard,
    Plan,
    Session,
    Template,
    hiding_plan,
    load_template,
    make_plan,
)


async def awaited() -> None:
    session = await AsyncSession.open("fib4", values={"age": 54}, hide={"age": 5})
    assert_type(await session.target(), float)
    assert_type(await session.risk(), str | None)
    assert_type(await session.guarantee(), Guarantee)


def test_public_calls_have_the_types_that_they_say() -> None:
    template = load_template("bmi")
    assert_type(template, Template)
    assert_type(make_plan("bmi", "0.9"), Plan)
    assert_type(make_plan(template, Decimal("0.9")), Plan)
    assert_type(make_plan(template, Fraction(9, 10)), Plan)
    assert_type(hiding_plan(template, {"wt": 5, "ht": "2%"}, advantage=0.4), Plan)
    session = Guard.open("bmi", values={"weight": 80, "height": 1.8}, hide={"wt": 5})
    assert_type(session, Session)
    assert_type(session.target(), float)
    assert_type(session.risk(), str | None)
    assert_type(session.to_prompt(), str)
    assert_type(session.guarantee(), Guarantee)
