"""The picture in CONTRIBUTING.md shows the imports there are, and the walk names real files."""

import re
from pathlib import Path

from tools.house import PAGE, ROOT, current, draw, read_contracts, reduced

PACKAGE = ROOT / "src" / "rootguard"


def walk() -> list[str]:
    """The files that the walk of one value names, in its order."""
    (section,) = re.findall(
        r"^## One value.*?\n(.*?)(?=^## )",
        PAGE.read_text(encoding="utf-8"),
        re.DOTALL | re.MULTILINE,
    )
    return re.findall(r"`([\w/]+\.(?:py|toml))`", section)


def test_the_picture_is_what_the_command_draws() -> None:
    assert PAGE.read_text(encoding="utf-8") == current(), "run `make house`"


def test_an_arrow_that_follows_from_others_is_left_out() -> None:
    arrows = {
        "top": frozenset({"middle", "bottom"}),
        "middle": frozenset({"bottom"}),
        "bottom": frozenset[str](),
    }
    assert reduced(arrows)["top"] == {"middle"}
    assert reduced(arrows)["middle"] == {"bottom"}


def test_a_new_import_changes_the_picture(tmp_path: Path) -> None:
    contracts = read_contracts(
        """
        [tool.importlinter]
        root_package = "small"
        [[tool.importlinter.contracts]]
        name = "one way"
        type = "layers"
        layers = ["upper", "left | (right)"]
        [[tool.importlinter.contracts]]
        name = "left draws nothing"
        type = "forbidden"
        """
    )
    assert contracts.layers == (("upper",), ("left", "right"))
    (tmp_path / "upper").mkdir()
    (tmp_path / "upper" / "__init__.py").write_text('"""What people see. More of it."""')
    (tmp_path / "left.py").write_text('"""One half: the first."""')
    (tmp_path / "right.py").write_text("")
    nothing = frozenset[str]()
    before = draw(contracts, {"upper": nothing, "left": nothing, "right": nothing}, tmp_path)
    after = draw(
        contracts, {"upper": frozenset({"left"}), "left": nothing, "right": nothing}, tmp_path
    )
    assert "upper_ --> left_" in after
    assert "-->" not in before
    assert "| `upper` | What people see |" in after
    assert "| `left` | One half: the first |" in after
    assert "- left draws nothing" in after


def test_the_walk_names_each_file_once_and_all_of_them_exist() -> None:
    named = walk()
    assert len(named) >= 20
    assert [path for path in named if not (PACKAGE / path).exists()] == []
    assert sorted(named) == sorted(set(named))
