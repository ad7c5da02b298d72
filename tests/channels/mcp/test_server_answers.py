"""What the server's tools say to an agent that spells names its own way, or wrongly."""

import json
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client

from rootguard import MemoryStore
from rootguard.channels.mcp.server import build_server
from rootguard.session import Person, parse_profile

LIVER = "age = 50\nast = 30\nalt = 31\nplt = 210\n"
VALUES = {"fib4": LIVER, "bmi": "wt = 80\nht = 1.8\n"}


def person(*templates: str) -> Person:
    values = "".join(VALUES[each] for each in templates)
    text = f'templates = {json.dumps(templates)}\nbudget = "3"\n[values]\n{values}'
    profile = parse_profile(text, file="me.toml")
    return Person.open(profile, store=MemoryStore(), on_clamp=lambda _: None)


def call(me: Person, tool: str, **arguments: object) -> tuple[bool, dict[str, Any]]:
    """Whether it was refused, and what was said."""

    async def talk() -> types.CallToolResult:
        async with Client(build_server(me)) as client:
            return await client.call_tool(tool, arguments)

    result = anyio.run(talk)
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return bool(result.is_error), json.loads(block.text)


@pytest.mark.parametrize("name", ["AST", "SGOT", "aspartate aminotransferase", "Ast", "ast"])
def test_a_value_is_given_by_any_of_its_names(name: str) -> None:
    me = person("fib4")
    refused, said = call(me, "get_values", names=[name])
    assert not refused
    assert said["values"] == [{"name": "ast", "value": me.release("ast"), "unit": "U/L"}]


def test_a_formula_may_use_other_names_too() -> None:
    me = person("fib4")
    refused, said = call(me, "compute", formula="AST / Platelets + SGPT")
    assert not refused
    assert said["value"] == me.derive("ast / plt + alt")


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("age * asd", "there is nothing called asd (at character 7 of the formula); did you mean"),
        ("sqrt(ast) * pltx", "called pltx (at character 13 of the formula); did you mean plt?"),
        ("sqr(ast)", "called sqr (at character 1 of the formula); did you mean sqrt?"),
        ("zzz + 1", "list_values says what there is"),
        ("ast +", "expected a number, a name or a bracket (at character 6 of the formula)"),
    ],
)
def test_a_mistake_in_a_formula_is_named_with_its_place(formula: str, said: str) -> None:
    refused, told = call(person("fib4"), "compute", formula=formula)
    assert refused
    assert told["code"] == "formula_refused"
    assert said in told["message"]


@pytest.mark.parametrize(
    ("question", "template"),
    [
        ("What is my FIB-4, and is it high?", "fib4"),
        ("Is my BMI normal?", "bmi"),
        ("Am I at risk by my fib4?", "fib4"),
    ],
)
def test_whether_a_value_is_high_is_said_by_the_classes_of_its_template(
    question: str, template: str
) -> None:
    me = person("fib4", "bmi")
    refused, said = call(me, "answer", question=question)
    assert not refused
    assert f"By the classes of {template}: {me.assess(template)['risk']}." in said["answer"]


def test_a_value_without_classes_is_not_judged() -> None:
    _, said = call(person("fib4", "bmi"), "answer", question="Is my AST high?")
    assert "classes" not in said["answer"]
    _, alone = call(person("fib4"), "answer", question="Is my AST high?")
    assert "classes" not in alone["answer"]


def test_a_bare_question_is_about_the_only_template() -> None:
    _, said = call(person("fib4"), "answer", question="Is it high?")
    assert "By the classes of fib4" in said["answer"]


def test_each_type_is_given_in_its_own_form() -> None:
    """A yes or no as a truth value, a date as ISO text, a category as its word."""
    text = (
        'templates = ["due_date", "audit_c", "cha2ds2_vasc"]\nbudget = "200"\n'
        'allocation = "uniform"\npublic = ["female"]\n[values]\nlast_period = 2024-01-01\n'
        'cycle_days = 28\ndrink_days = "2 to 3 times a week"\ndrinks_a_day = "3 or 4"\n'
        'heavy_days = "Never"\nheart_failure = false\nhypertension = "yes"\nage = 76\n'
        'diabetes_dx = "no"\nprior_stroke = true\nvascular_disease = "n"\nfemale = "yes"\n'
    )
    profile = parse_profile(text, file="me.toml")
    me = Person.open(profile, store=MemoryStore(), on_clamp=lambda _: None)
    names = ["last_period", "due_date", "drink_days", "hypertension", "female", "cycle_days"]
    refused, said = call(me, "get_values", names=names)
    assert not refused
    assert [each["value"] for each in said["values"]] == [
        "2024-01-01",
        "2024-10-07",
        "2 to 3 times a week",
        True,
        True,
        28,
    ]
    refused, said = call(me, "compute", formula='drink_days == "never" or prior_stroke')
    assert not refused
    assert said["value"] == 1
    refused, said = call(me, "assess", template="cha2ds2_vasc")
    assert (said["value"], said["risk"]) == (pytest.approx(6, abs=0.5), "high")
