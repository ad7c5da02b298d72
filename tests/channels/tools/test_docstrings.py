"""Docstrings that servers send as descriptions are read parameter by parameter."""

import pytest

from rootguard.channels.tools import ToolMap, understand
from rootguard.channels.tools.docstrings import choices_in, documented
from rootguard.template import load_template
from tests.support.schemas import IDENTIFIERS, ROOTS, TEMPLATES, tool
from tests.support.shared_tools import SERVER, server_figures

NUMPY = """Liver fibrosis of the patient.

    Parameters
    ----------
    a1 : float
        Aspartate aminotransferase
        in U/L
    b1 : int, optional
        Age in years

    Returns
    -------
    float
        not a parameter
"""
GOOGLE = """Liver fibrosis of the patient.

    Args:
        a1 (float): Aspartate aminotransferase
            in U/L
        b1: Age in years

    Returns:
        A number.
"""
SPHINX = """Liver fibrosis of the patient.

    :param float a1: Aspartate aminotransferase in U/L
    :param b1: Age in years
    :type b1: int
    :returns: a number
"""
LIST = """Liver fibrosis of the patient.

- `a1` (number, required): Aspartate aminotransferase in U/L
- **b1**: Age in years
"""


def read(description: str, *names: str, kind: str = "number") -> ToolMap:
    """A tool whose schema is bare."""
    schema = {"type": "object", "properties": {name: {"type": kind} for name in names}}
    return understand("tool", description, schema, ROOTS, TEMPLATES, identifiers=IDENTIFIERS)


@pytest.mark.parametrize("form", [NUMPY, GOOGLE, SPHINX, LIST])
def test_each_form_says_the_same_of_its_parameters(form: str) -> None:
    found = documented(form, ("a1", "b1"))
    assert found.summary == "Liver fibrosis of the patient."
    assert found.parameters == {"a1": "Aspartate aminotransferase in U/L", "b1": "Age in years"}


@pytest.mark.parametrize("form", [NUMPY, GOOGLE, SPHINX, LIST])
def test_what_a_docstring_says_is_evidence(form: str) -> None:
    made = read(form, "a1", "b1")
    assert {b.parameter[0]: b.name for b in made.bindings} == {"a1": "ast", "b1": "age"}


def test_letters_are_read_from_prose() -> None:
    text = "Computes x/y for the patient, where x is your AST in U/L and y your age in years."
    found = documented(text, ("x", "y")).parameters
    assert found == {"x": "your AST in U/L", "y": "your age in years"}


def test_a_section_is_not_what_the_tool_is_about() -> None:
    text = "Water deficit of the patient.\n\nFormula:\n--------\n- Child: 0.6\n\n"
    text += "Args:\n  weight_kg: Weight of the patient"
    (binding,) = read(text, "weight_kg").bindings
    assert binding.name == "wt"


def test_choices_in_quotes_are_choices() -> None:
    assert choices_in("Gender ('male' or 'female')") == ("male", "female")
    assert choices_in('One of: "a", "b", or "c".') == ("a", "b", "c")
    assert choices_in("the patient's and the doctor's") == ()
    made = read("Risk of the patient\n\nArgs:\n  sex: 'Male' or 'Female'", "sex", kind="string")
    assert made.bindings[0].ends == ("Male", "Female")


def test_a_description_that_is_a_stranger_s_is_read_in_linear_time() -> None:
    documented("a : " * 50_000 + "\n" * 50_000, ("a", "b"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("age", "Vascular age in years"),
        ("age", "Age rating"),
        ("age", "Age score in points"),
        ("sbp", "Ankle systolic blood pressure in mmHg"),
        ("income", "Annual household income in USD"),
        ("age", "Donor age in years"),
        ("age", "Cohort age in years"),
        ("weight", "Weight of the model in kg"),
        ("bilirubin", "Bilirubin grade"),
        ("cholesterol", "LDL cholesterol in mg/dL"),
    ],
)
def test_what_modifies_a_value_makes_another_of_it(name: str, text: str) -> None:
    made = read(f"Risk of the patient\n\nArgs:\n  {name}: {text}", name, kind="number")
    assert made.bindings == ()


def test_diabetes_is_the_diagnosis_and_not_the_flag_that_holds_for_more() -> None:
    text = "True if the patient has diabetes"
    asked = {"diabetes": {"type": "boolean", "description": text}}
    made = tool(asked, name="risk", about="Risk of the patient")
    assert [each.name for each in made.bindings] == ["diabetes_dx"]
    wider = {"diabetes": {"type": "boolean", "description": "Diabetes or IFG of the patient"}}
    made = tool(wider, name="risk", about="Risk of the patient")
    assert [each.name for each in made.bindings] == ["diabetes"]
    nafld = load_template("nafld")
    made = tool(
        asked, name="risk", about="Risk of the patient", roots=dict(nafld.roots), templates=(nafld,)
    )
    assert made.bindings == ()
    assert [each.candidates for each in made.asked] == [("diabetes",)]


def test_what_is_earlier_is_prior_where_the_value_is_so() -> None:
    made = tool(
        {
            "vascular_disease": {"type": "boolean", "description": "Prior MI, or aortic plaque"},
            "smoker": {"type": "boolean", "description": "Previous smoker"},
        },
        name="risk",
        about="Risk of the patient",
    )
    assert [each.name for each in made.bindings] == ["vascular_disease"]


def test_days_in_a_scale_of_answers_are_no_days_of_the_owner() -> None:
    text = "Thoughts that you would be better off dead (0: not at all, 1: several days)"
    made = tool({"self_harm": {"type": "integer", "description": text}}, about="Of the patient")
    # It is asked which question's answer it is, not which number of days.
    assert all(name.startswith("phq_") for each in made.asked for name in each.candidates)


@pytest.mark.parametrize(
    ("about", "name", "text", "root"),
    [
        ("Child-Pugh score of the patient", "albumin", "Albumin in g/dL", "alb"),
        ("Creatinine clearance of the patient", "weight", "Weight in kg", "wt"),
        ("Model for end-stage liver disease", "bilirubin", "Total bilirubin in mg/dL", "bili"),
        ("Child-Pugh: Child A to C, of the patient", "albumin", "白蛋白 Albumin in g/dL", "alb"),
        ("From a cohort study. Risk of the patient", "age", "Age in years", "age"),
    ],
)
def test_a_word_that_excludes_does_so_only_beside_what_it_modifies(
    about: str, name: str, text: str, root: str
) -> None:
    made = read(f"{about}\n\nArgs:\n  {name}: {text}", name)
    assert [b.name for b in made.bindings] == [root]


@pytest.mark.parametrize("name", ["gotMarried", "respiratory_rate", "insulin_treatment", "altText"])
def test_what_only_contains_a_name_is_no_question(name: str) -> None:
    made = read("Intake form of the patient", name)
    assert (made.bindings, made.asked) == ((), ())


def test_the_purpose_of_a_loan_is_no_loan() -> None:
    made = read("Loan application of the borrower", "loanPurpose", kind="string")
    assert (made.bindings, made.asked) == ((), ())


@pytest.mark.parametrize(
    ("name", "about", "inputs"),
    [
        ("bard_score", "BARD score for NAFLD", ("bmi", "ast", "alt", "diabetes_or_ifg")),
        (
            "egfr_cr_cys",
            "eGFR by creatinine and cystatin C",
            ("scr", "age", "female", "cystatin_c"),
        ),
        ("meld_3", "MELD 3.0 score", ("bilirubin", "inr", "creatinine", "sodium", "albumin")),
    ],
)
def test_a_calculation_with_other_inputs_is_another_one(
    name: str, about: str, inputs: tuple[str, ...]
) -> None:
    schema = {
        "type": "object",
        "properties": {each: {"type": "number"} for each in inputs},
        "required": list(inputs),
    }
    made = understand(name, about, schema, ROOTS, TEMPLATES, identifiers=IDENTIFIERS)
    assert made.formula is None


@pytest.mark.skipif(not SERVER.exists(), reason="the shared cases are not here")
def test_the_shared_server_is_understood() -> None:
    found = server_figures()
    assert found.wrong == 0
    assert found.recall >= 0.92
    assert found.callable >= 0.75 * found.tools
