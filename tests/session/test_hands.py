"""What people's hands reach for: awaiting, prompts, notebooks, a template in Python."""

import asyncio

import pytest

from rootguard import AsyncSession, Guard, MemoryStore, Template, hiding_plan, load_template
from rootguard.errors import PrivateValueError, TemplateError

ME = {"age": 54, "ast": 23, "alt": 30, "plt": 220}


def test_a_session_can_be_awaited_and_answers_the_same() -> None:
    store = MemoryStore()

    async def use() -> None:
        session = await AsyncSession.open("fib4", values=ME, hide={"age": 5}, store=store)
        plain = session.session
        assert await session.release("ast") == plain.release("ast")
        assert await session.derive("ast / alt") == plain.derive("ast / alt")
        assert await session.target() == plain.target()
        assert await session.risk() == plain.risk()
        assert await session.guarantee() == plain.guarantee()
        assert await session.to_prompt() == plain.to_prompt()
        again = await AsyncSession.resume("fib4", store=store)
        assert await again.release("ast") == plain.release("ast")
        assert "fib4" in repr(again)

    asyncio.run(use())


def test_a_refused_opening_shows_no_value_in_its_frames() -> None:
    async def use() -> None:
        await AsyncSession.open("fib4", values=given(), hide={})

    def given() -> dict[str, float]:
        return {"age": 54 + 1 / 16}

    with pytest.raises(PrivateValueError) as refused:
        asyncio.run(use())
    seen = [str(refused.value)]
    trace = refused.value.__traceback__
    while trace is not None:
        seen += [repr(each) for each in trace.tb_frame.f_locals.values()]
        trace = trace.tb_next
    assert len(seen) > 5
    assert "54.0625" not in " ".join(seen)


def test_a_prompt_has_released_values_with_titles_and_units() -> None:
    store = MemoryStore()
    session = Guard.open("fib4", values=ME, hide={}, store=store)
    assert store.disclosures(session.principal) == ()
    text = session.to_prompt()
    lines = text.splitlines()
    assert len(lines) == 5
    assert lines[1].startswith("Age: ")
    assert lines[1].endswith(" years")
    assert lines[4].startswith("Platelets: ")
    assert {each.root for each in store.disclosures(session.principal)} == set(ME)


def test_notebooks_show_tables_and_no_value() -> None:
    session = Guard.open("fib4", values=ME, hide={})
    for shown in (session, session.guarantee(), hiding_plan("fib4", {}), load_template("fib4")):
        html = shown._repr_html_()
        assert html.startswith("<table>")
        assert html.endswith("</table>")
        assert "age" in html
    assert f"{session.release('age'):.3f}" not in session._repr_html_()


def test_a_template_can_be_put_together_in_python() -> None:
    made = Template.build(
        "mine",
        roots={"wt": {"lower": 30, "upper": 200, "unit": "kg"}, "ht": {"lower": 1, "upper": 2}},
        target={"name": "score", "formula": "wt / ht ** 2"},
        risk=({"label": "<b>", "below": 25}, {"label": "high"}),
    )
    assert made.title == "mine"
    found = made.classify(24)
    assert found is not None
    assert found.label == "<b>"
    assert Guard.open(made, values={"wt": 80, "ht": 1.8}, hide={"wt": 5}).target() > 0
    with pytest.raises(TemplateError, match=r"Template\.build.*roots\.wt\.upper"):
        Template.build("x", roots={"wt": {"lower": 30}}, target={"name": "y", "formula": "wt"})
    risky = Template.build("t", title="<script>", roots=made_roots(), target=made_target())
    assert "<script>" not in risky._repr_html_()


def made_roots() -> dict[str, dict[str, object]]:
    return {"wt": {"lower": 30, "upper": 200}}


def made_target() -> dict[str, object]:
    return {"name": "y", "formula": "wt * 2"}
