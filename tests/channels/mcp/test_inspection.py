"""What a server's tools would be told, from the list that it gives."""

from pathlib import Path

import mcp_types as types
import pytest
from mcp import StdioServerParameters
from mcp.shared.exceptions import MCPError

from rootguard.channels.faults import RequestRefusedError
from rootguard.channels.mcp import inspection
from rootguard.channels.mcp.inspection import Inspection, inspect_server
from rootguard.channels.mcp.proxy.http import ServerAddress
from rootguard.channels.mcp.proxy.offers import MAX_PAGES
from rootguard.session import load_profile
from tests.support.listings import NUMBER, WORD, Listing, tool

PROFILE = """
templates = ["fib4", "homa", "tyg"]
budget = "0.9"

[values]

[identifiers]
name = "Jo Roe"
"""


@pytest.fixture
def listing(monkeypatch: pytest.MonkeyPatch) -> Listing:
    made = Listing()
    monkeypatch.setattr(inspection, "Client", made)
    return made


def inspected(folder: Path, *, profile: str = PROFILE, **options: object) -> Inspection:
    file = folder / "me.toml"
    file.write_text(profile, encoding="utf-8")
    given: dict[str, object] = {"command": ["clinic", "--stdio"], "url": None, "pins_path": None}
    return inspect_server(str(file), **{**given, **options})  # type: ignore[arg-type]


def test_a_root_costs_what_the_first_plan_that_has_it_gives_it(
    listing: Listing, tmp_path: Path
) -> None:
    """Glucose is in two templates; what rests on roots costs these, and a token costs nothing."""
    glucose = {**NUMBER, "description": "Fasting glucose in mg/dL"}
    score = {**NUMBER, "description": "FIB-4 score of the patient"}
    name = {**WORD, "description": "Name of the patient"}
    listing.pages = ([tool("risk", "Of the patient", glucose=glucose, fib4=score, name=name)],)
    found = inspected(tmp_path)
    assert [b.name for b in found.tools[0].bindings] == ["glu", "fib4", "name"]
    liver, sugar, _ = load_profile(tmp_path / "me.toml").plans()
    priced = [*liver.shares, sugar["glu"]]
    assert [(s.root, s.epsilon, s.step) for s in found.shares] == [
        (s.root, float(s.epsilon), s.domain.step) for s in priced
    ]
    assert [s.unit for s in found.shares] == ["years", "U/L", "U/L", "10^9/L", "mg/dL"]
    assert found.computed == ("fib4",)


def test_a_value_of_another_template_costs_the_roots_that_it_is_computed_from(
    listing: Listing, tmp_path: Path
) -> None:
    listing.pages = ([tool("risk", "", apri={**NUMBER, "description": "APRI of the patient"})],)
    found = inspected(tmp_path)
    assert [s.root for s in found.shares] == ["ast", "plt"]
    assert found.computed == ("apri",)


def test_of_two_templates_with_a_root_the_first_says_what_it_is_called(
    listing: Listing, tmp_path: Path
) -> None:
    for name, alias in (("one", "frobs"), ("two", "gizmos")):
        (tmp_path / f"{name}.toml").write_text(
            f'name = "{name}"\ntitle = "T"\n[roots.x]\nlower = 0\nupper = 1\n'
            f'aliases = ["{alias}"]\n[target]\nname = "t_{name}"\nformula = "2 * x"\n',
            encoding="utf-8",
        )
    listing.pages = ([tool("count", "", frobs=NUMBER, gizmos=NUMBER)],)
    profile = 'templates = ["./one.toml", "./two.toml"]\nbudget = "1"\n'
    (found,) = inspected(tmp_path, profile=profile).tools
    assert [(b.parameter, b.name) for b in found.bindings] == [(("frobs",), "x")]


def test_a_tool_that_asks_for_nothing_costs_nothing(listing: Listing, tmp_path: Path) -> None:
    listing.pages = ([types.Tool(name="weather", input_schema={"type": "object"})],)
    found = inspected(tmp_path)
    assert [each.tool for each in found.tools] == ["weather"]
    assert (found.shares, found.computed) == ((), ())


def test_a_pinned_parameter_is_read_as_its_owner_says(listing: Listing, tmp_path: Path) -> None:
    listing.pages = ([tool("risk", "", x=NUMBER)],)
    pins = tmp_path / "pins.toml"
    pins.write_text('[tools.risk.x]\nroot = "ast"\n', encoding="utf-8")
    assert inspected(tmp_path).shares == ()
    assert [s.root for s in inspected(tmp_path, pins_path=str(pins)).shares] == ["ast"]


def test_every_page_of_a_list_is_read_and_no_list_is_endless(
    listing: Listing, tmp_path: Path
) -> None:
    listing.pages = tuple([tool(f"t{place}", "")] for place in range(3))
    assert [each.tool for each in inspected(tmp_path).tools] == ["t0", "t1", "t2"]
    assert listing.asked == [None, "1", "2"]
    listing.pages = ([],) * 1000
    inspected(tmp_path)
    assert len(listing.asked) == MAX_PAGES


def test_a_server_is_a_command_with_its_arguments_or_an_address(
    listing: Listing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ServerAddress, "streams", lambda self, _limits: self.url)
    inspected(tmp_path)
    assert isinstance(listing.server, StdioServerParameters)
    assert (listing.server.command, listing.server.args) == ("clinic", ["--stdio"])
    inspected(tmp_path, command=(), url="http://127.0.0.1:1/mcp")
    assert str(listing.server) == "http://127.0.0.1:1/mcp"


@pytest.mark.parametrize(
    "problem",
    [
        OSError("61.375"),
        MCPError(-32603, "61.375"),
        ExceptionGroup("61.375", [ValueError("61.375")]),
    ],
)
def test_a_server_that_cannot_be_read_is_unreachable_and_is_not_quoted(
    listing: Listing, tmp_path: Path, problem: Exception
) -> None:
    listing.fails = problem
    with pytest.raises(RequestRefusedError) as refused:
        inspected(tmp_path)
    assert refused.value.fault.code == "upstream_unreachable"
    assert refused.value.__context__ is None


def test_a_server_that_never_answers_is_given_up(
    listing: Listing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing.hangs = True
    monkeypatch.setattr(inspection, "_PATIENCE", 0)
    with pytest.raises(RequestRefusedError) as refused:
        inspected(tmp_path)
    assert refused.value.fault.code == "upstream_unreachable"
