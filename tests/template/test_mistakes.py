"""Every mistake in a template names its file, key, problem and remedy."""

import pytest

from rootguard.expressions import names
from rootguard.template import MAX_ROOTS, parse_template
from rootguard.values import RootName
from tests.support.liver_template import BASE, MATRIX, changed, refusal

AGE_LINES = 'lower = 18\nupper = 80\nunit = "years"'

AST = 'aliases = ["SGOT"]'


def kept(formula: str, units: str) -> str:
    return f'{AST}\nkept = {{ formula = "{formula}", units = {{ {units} }} }}'


# fmt: off
MISTAKES: dict[str, tuple[str, str, str, str, str]] = {
    # case: (text in BASE, what it becomes, key, words of the problem, words of the remedy)
    "unknown top key": ('field = "m', 'feild = "m', "feild", "not known", "'field'"),
    "unknown root key": ("mean = 50", "maen = 50", "roots.age.maen", "not known", "'mean'"),
    "unknown odd key": ("mean = 50", "zz = 50", "roots.age.zz", "not known", "one of lower, upper"),
    "unknown derived key": ("description =", "about =", "derived.half.about", "not known", "unit"),
    "unknown target key": ('unit = "points"', 'units = ""', "target.units", "not known", "'unit'"),
    "unknown risk key": ("below = 10", "bellow = 10", "risk.1.bellow", "not known", "'below'"),
    "unknown population key": ("source =", "sauce =", "population.sauce", "not known", "'source'"),
    "missing name": ('name = "liver"\n', "", "name", "missing", "add name"),
    "missing title": ('title = "A liver score"\n', "", "title", "missing", "add title"),
    "missing lower": ("lower = 18\n", "", "roots.age.lower", "missing", "add lower"),
    "missing upper": ("upper = 8.0\n", "", "roots.decades.upper", "missing", "add upper"),
    "missing formula": ('formula = "ast / 2"\n', "", "derived.half.formula", "missing", "add"),
    "missing target formula": (
        'formula = "decades * quarter"\n', "", "target.formula", "missing", "add formula",
    ),
    "missing label": ('label = "low"\n', "", "risk.1.label", "missing", "add label"),
    "missing matrix": (f"covariance = {MATRIX}\n", "", "population.covariance", "square", "2 rows"),
    "missing source": ('source = "A survey"\n', "", "population.source", "missing", "add source"),
    "number as text": ("lower = 18", 'lower = "18"', "roots.age.lower", "text, not a n", "plain"),
    "bool as number": ("lower = 18", "lower = true", "roots.age.lower", "true or false", "plain"),
    "bool as limit": ("below = 10", "below = false", "risk.1.below", "true or false", "plain"),
    "date as number": ("lower = 18", "lower = 1979-05-27", "roots.age.lower", "a date", "plain"),
    "text as number": ('"years"', "7", "roots.age.unit", "a number, not text", "quotes"),
    "list as text": ('"years"', "[]", "roots.age.unit", "a list, not text", "quotes"),
    "aliases as text": ('["SGOT"]', '"SGOT"', "roots.ast.aliases", "text, not a list", "[ ]"),
    "alias as number": ('["SGOT"]', '["a", 7]', "roots.ast.aliases.2", "a number", "quotes"),
    "empty alias": ('["SGOT"]', '[" "]', "roots.ast.aliases.1", "empty", "write something"),
    "alias with a line": ('["SGOT"]', '["a\\nb"]', "roots.ast.aliases.1", "plain line", "as one"),
    "root as number": (
        '[roots.decades]\nlower = 1.8\nupper = 8.0\nformula = "age / 10"', "[roots]\ndecades = 7",
        "roots.decades", "a number, not a table", "[roots.decades]",
    ),
    "nan": ("lower = 7.0", "lower = nan", "roots.ast.lower", "not finite", "finite"),
    "infinity": ("upper = 272.0", "upper = inf", "roots.ast.upper", "not finite", "finite"),
    "huge integer": (
        "upper = 272.0", f"upper = 1{'0' * 400}", "roots.ast.upper", "not finite", "finite",
    ),
    "infinite mean": ("mean = 50", "mean = -inf", "roots.age.mean", "not finite", "finite"),
    "hide further than the bounds": (
        "upper = 80\n", 'upper = 80\nhide = 63\nhide_because = "x"\n',
        "roots.age.hide", "so far apart", "up to 62",
    ),
    "hide nothing": (
        "upper = 80\n", 'upper = 80\nhide = 0\nhide_because = "x"\n',
        "roots.age.hide", "so far apart", "above 0",
    ),
    "hide without a reason": (
        "upper = 80\n", "upper = 80\nhide = 5\n",
        "roots.age.hide_because", "missing", "add hide_because",
    ),
    "a title that is another's alias": (
        "upper = 80\n", 'upper = 80\ntitle = "sgot"\n',
        "roots.age.title", "already means roots.ast", "another",
    ),
    "decimals as text": (
        "upper = 80\n", 'upper = 80\ndecimals = "0"\n',
        "roots.age.decimals", "not a number of decimals", "0 to 6",
    ),
    "decimals as bool": (
        "upper = 80\n", "upper = 80\ndecimals = true\n",
        "roots.age.decimals", "not a number of decimals", "0 to 6",
    ),
    "part of a decimal": (
        "upper = 80\n", "upper = 80\ndecimals = 1.0\n",
        "roots.age.decimals", "not a number of decimals", "whole",
    ),
    "negative decimals": (
        "upper = 80\n", "upper = 80\ndecimals = -1\n",
        "roots.age.decimals", "not a number of decimals", "0 to 6",
    ),
    "seven decimals": (
        "upper = 80\n", "upper = 80\ndecimals = 7\n",
        "roots.age.decimals", "not a number of decimals", "0 to 6",
    ),
    "too few decimals": (
        "lower = 1.8\nupper = 8.0\n", "lower = 1.8\nupper = 2.9\ndecimals = 0\n",
        "roots.decades.decimals", "so few decimals", "raise it",
    ),
    "equal bounds": ("lower = 18\n", "lower = 80\n", "roots.age.lower", "not below", "widen"),
    "crossed bounds": ("upper = 80\n", "upper = 1\n", "roots.age.lower", "not below", "exchange"),
    "endless width": (
        "lower = 1.8\nupper = 8.0", "lower = -1.7e308\nupper = 1.7e308", "roots.decades.lower",
        "below", "bounds",
    ),
    "grid too small": (AGE_LINES, AGE_LINES + "\ngrid = 1", "roots.age.grid", "grid", "from 2 to"),
    "grid too large": (
        AGE_LINES, AGE_LINES + "\ngrid = 100001", "roots.age.grid", "grid", "100000",
    ),
    "grid not whole": (AGE_LINES, AGE_LINES + "\ngrid = 10.0", "roots.age.grid", "grid", "whole"),
    "grid not number": (AGE_LINES, AGE_LINES + "\ngrid = true", "roots.age.grid", "grid", "whole"),
    "formula unread": ('"ast / 2"', '"ast / "', "derived.half.formula", "character", "language"),
    "formula of code": (
        '"ast / 2"', "\"__import__('os')\"", "derived.half.formula", "formula", "language",
    ),
    "formula empty": ('"ast / 2"', '""', "derived.half.formula", "empty", "write"),
    "formula too long": (
        '"ast / 2"', f'"ast{" + 1" * 900}"', "derived.half.formula", "limit", "language",
    ),
    "formula not text": ('"ast / 2"', "2", "derived.half.formula", "a number, not text", "quotes"),
    "unknown name": ('"ast / 2"', '"asd / 2"', "derived.half.formula", "asd", "use one of ast"),
    "unknown in target": ("decades * q", "lustra * q", "target.formula", "lustra", "declare it"),
    "unknown in root": ("age / 10", "agee / 10", "roots.decades.formula", "agee", "age"),
    "names the target": ('"half / 2"', '"score / 2"', "derived.quarter.formula", "score", "use"),
    "target names itself": ("decades * q", "score * q", "target.formula", "score", "use"),
    "root of itself": (
        "age / 10", "decades", "roots.decades.formula", "decades -> decades", "break the ring",
    ),
    "ring": (
        '"ast / 2"', '"quarter * 2"', "derived.half.formula", "half -> quarter -> half",
        "break the ring",
    ),
    "target of nothing": ("decades * quarter", "2 * pi", "target.formula", "no root", "one root"),
    "root of nothing": ("age / 10", "4 + 1", "roots.decades.formula", "no root", "one root"),
    "kept of itself": (
        AST, kept("age / 2", 'age = "years"'), "roots.ast.kept.formula", "age, which is a value of",
        "other templates",
    ),
    "kept of derived": (
        AST, kept("2 * half", 'half = ""'), "roots.ast.kept.formula", "half, which is", "formula",
    ),
    "kept of the target": (
        AST, kept("score", 'score = ""'), "roots.ast.kept.formula", "score, which is", "other",
    ),
    "kept of nothing": (AST, kept("2 * pi", ""), "roots.ast.kept.formula", "no root", "one root"),
    "kept unread": (AST, kept("mass /", ""), "roots.ast.kept.formula", "character", "language"),
    "kept not a table": (AST, f'{AST}\nkept = "mass"', "roots.ast.kept", "text, not a table", "["),
    "kept with formula": (
        '"age / 10"', '"age / 10"\nkept = { formula = "m", units = { m = "" } }',
        "roots.decades.kept", "formula as well", "keep one",
    ),
    "kept without formula": (
        AST, f"{AST}\nkept = {{ units = {{}} }}", "roots.ast.kept.formula", "missing", "formula",
    ),
    "kept without units": (
        AST, f'{AST}\nkept = {{ formula = "m" }}', "roots.ast.kept.units", "missing", "add units",
    ),
    "kept with a unit missing": (
        AST, kept("m * n", 'm = "kg"'), "roots.ast.kept.units", "unit of n is missing", "add n =",
    ),
    "kept with a unit too many": (
        AST, kept("ab", 'ab = "kg", abc = "m"'), "roots.ast.kept.units.abc", "not known", "'ab'",
    ),
    "kept with an unknown unit": (
        AST, kept("m", 'm = "stonez"'), "roots.ast.kept.units.m", "unit is not known", '"kg"',
    ),
    "kept with a number as unit": (
        AST, kept("m", "m = 7"), "roots.ast.kept.units.m", "a number, not text", "quotes",
    ),
    "kept with an unknown key": (
        AST, kept("m", 'm = "kg" }, unit = { '), "roots.ast.kept.unit", "not known", "'units'",
    ),
    "odd root name": ("[roots.decades]", '[roots."a b"]', "roots.a b", "not a name", "letters"),
    "digit name": ("[derived.half]", "[derived.2half]", "derived.2half", "not a name", "letters"),
    "accented name": (
        "[derived.half]", '[derived."hälf"]', "derived.hälf", "not a name", "letters",
    ),
    "odd target name": ('name = "score"', 'name = "a-b"', "target.name", "not a name", "letters"),
    "odd template name": ('name = "liver"', 'name = "a/b"', "name", "not a name", "letters"),
    "name of a function": ("[derived.half]", "[derived.sqrt]", "derived.sqrt", "word", "another"),
    "name of a constant": ("[roots.decades]", "[roots.pi]", "roots.pi", "word", "another"),
    "name of a keyword": ('name = "score"', 'name = "if"', "target.name", "word", "another"),
    "derived as root": ("[derived.half]", "[derived.age]", "derived.age", "roots.age", "another"),
    "target as root": ('name = "score"', 'name = "ast"', "target.name", "roots.ast", "another"),
    "target as derived": ('name = "score"', 'name = "half"', "target.name", "derived.half", "ano"),
    "names but for case": (
        "[derived.half]", "[derived.AGE]", "derived.AGE", "roots.age", "another",
    ),
    "alias twice": ('["SGOT"]', '["Years OLD"]', "roots.ast.aliases", "means roots.age", "another"),
    "alias as name": ('["SGOT"]', '["Age"]', "roots.ast.aliases", "means roots.age", "another"),
    "alias as target": ('["SGOT"]', '["score"]', "roots.ast.aliases", "target.name", "another"),
    "mean outside": ("mean = 50", "mean = 81", "roots.age.mean", "outside", "correct"),
    "sd zero": ("sd = 19", "sd = 0", "roots.age.sd", "above zero", "drop"),
    "sd negative": ("sd = 19", "sd = -1", "roots.age.sd", "above zero", "drop"),
    "sd alone": ("mean = 50\n", "", "roots.age.mean", "no mean", "add mean"),
    "unknown shape": ('"lognormal"', '"gaussian"', "roots.ast.shape", "no shape", "one of normal"),
    "shape without sd": ("sd = 13.4\n", "", "roots.ast.shape", "needs mean and sd", "drop shape"),
    "lognormal below zero": (
        "lower = 7.0", "lower = -7.0", "roots.ast.shape", "below zero", "raise",
    ),
    "limits equal": ("at_most = 20", "at_most = 10", "risk.2.at_most", "increase", "order"),
    "limits falling": ("at_most = 20", "below = -1", "risk.2.below", "increase", "order"),
    "limit on the last": ('"high"', '"high"\nbelow = 30', "risk.3.below", "last", "drop"),
    "no limit earlier": ("below = 10\n", "", "risk.1.below", "only the last", "add below"),
    "two limits": (
        "below = 10", "below = 10\nat_most = 9", "risk.1.at_most", "as well", "keep one",
    ),
    "limit not finite": ("below = 10", "below = nan", "risk.1.below", "finite", "finite"),
    "matrix short": (MATRIX, "[[361.0, 20.0]]", "population.covariance", "square", "2 rows of 2"),
    "matrix ragged": (MATRIX, "[[361.0], [20.0, 1]]", "population.covariance", "square", "2 rows"),
    "matrix of text": (MATRIX, '[["a", 1], [1, 1]]', "population.covariance.1.1", "text", "plain"),
    "matrix flat": (MATRIX, "[1, 2]", "population.covariance.1", "a number, not a list", "[ ]"),
    "matrix with nan": (
        MATRIX, "[[1, 0], [0, nan]]", "population.covariance.2.2", "not finite", "finite",
    ),
    "matrix one-sided": (
        MATRIX, "[[361.0, 20.0], [21.0, 179.56]]", "population.covariance", "symmetric", "copy",
    ),
    "matrix indefinite": (
        MATRIX, "[[1.0, 2.0], [2.0, 1.0]]", "population.covariance", "semi-definite", "copy",
    ),
    "matrix negative": (
        MATRIX, "[[-1.0, 0.0], [0.0, 1.0]]", "population.covariance", "semi-definite", "copy",
    ),
    "matrix zero beside": (
        MATRIX, "[[0.0, 1.0], [1.0, 1.0]]", "population.covariance", "semi-definite", "copy",
    ),
    "population of strangers": (
        '["age", "ast"]', '["age", "alt"]', "population.roots", "alt", "age",
    ),
    "population twice": ('["age", "ast"]', '["age", "age"]', "population.roots", "twice", "once"),
    "population of none": ('["age", "ast"]', "[]", "population.roots", "none", "once"),
    "population without mean": (
        '["age", "ast"]', '["age", "decades"]', "population.roots", "no mean", "give",
    ),
    "long title": ("A liver score", "x" * 401, "title", "over 400", "shorten"),
    "title with a line": ("A liver score", "a\\tb", "title", "plain line", "as one"),
}
# fmt: on


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_told_with_its_file_key_problem_and_remedy(case: str) -> None:
    old, new, key, problem, remedy = MISTAKES[case]
    error = refusal(changed(old, new))
    assert error.file == "liver.toml"
    assert error.key == key
    assert problem in error.problem
    assert remedy in error.remedy
    assert str(error) == f"liver.toml: {key}: {error.problem}; {error.remedy}"


@pytest.mark.parametrize(
    ("text", "key", "problem"),
    [
        ('name = "a"\ntitle = "A"\ntarget = {name = "t", formula = "1"}', "roots", "no root"),
        ('name = "a"\ntitle = "A"\n[roots.x]\nlower = 0\nupper = 1', "target", "missing"),
        ('name = "a"\ntitle = "A"\nroots = 7', "roots", "a number, not a table"),
        (BASE.split("[[risk]]")[0].replace("field", "risk = 7\nfield"), "risk", "not a list"),
        (BASE.split("[[risk]]")[0].replace("field", "risk = [7]\nfield"), "risk.1", "not a table"),
    ],
)
def test_a_template_with_parts_missing_or_misshapen_is_told_which(
    text: str, key: str, problem: str
) -> None:
    error = refusal(text)
    assert error.key == key
    assert problem in error.problem


def test_a_ring_through_roots_and_derived_values_is_named() -> None:
    ring = """
        name = "r"
        title = "R"
        roots.x = { lower = 0, upper = 1 }
        roots.a = { lower = 0, upper = 1, formula = "b + x" }
        roots.b = { lower = 0, upper = 1, formula = "c" }
        derived.c = { formula = "a" }
        target = { name = "y", formula = "x" }
    """
    error = refusal(ring)
    assert error.key == "roots.a.formula"
    assert "a -> b -> c -> a" in error.problem


def test_more_roots_than_the_limit_are_refused() -> None:
    def wide(count: int) -> str:
        roots = "".join(f"[roots.r{i}]\nlower = 0\nupper = 1\n" for i in range(count))
        return f'name = "w"\ntitle = "W"\n{roots}[target]\nname = "y"\nformula = "r0"\n'

    assert len(parse_template(wide(MAX_ROOTS), file="w").roots) == MAX_ROOTS == 64
    error = refusal(wide(MAX_ROOTS + 1))
    assert error.key == "roots"
    assert "over 64" in error.problem
    assert "split" in error.remedy


@pytest.mark.parametrize(
    "matrix",
    [
        "[[1.0, 1.0], [1.0, 1.0]]",  # one value twice
        "[[0.0, 0.0], [0.0, 4.0]]",  # a value that does not vary
        "[[361.0, 20.0], [20.000000000001, 179.56]]",  # rounded
        "[[1e-12, 1e-3], [1e-3, 1e7]]",  # very different scales
    ],
)
def test_a_singular_or_rounded_covariance_is_accepted(matrix: str) -> None:
    assert parse_template(changed(MATRIX, matrix), file="f").population is not None


def test_a_derived_constant_and_an_alias_in_the_roots_own_name_are_accepted() -> None:
    constant = parse_template(changed('"ast / 2"', '"pi / 2"'), file="f")
    assert names(constant.derived["half"].formula) == frozenset()
    named = parse_template(changed('["SGOT"]', '["AST", "SGOT"]'), file="f")
    assert named.roots[RootName("ast")].aliases == ("AST", "SGOT")
