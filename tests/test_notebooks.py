"""The notebooks run from top to bottom, and have no output in the repository."""

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="`make extras` installs nbclient")
nbclient = pytest.importorskip("nbclient", reason="`make extras` installs nbclient")
pytest.importorskip("ipykernel", reason="`make extras` installs a kernel")

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_there_are_four() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["attack", "first_agent", "paper", "template"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_keeps_no_output(path: Path) -> None:
    for cell in nbformat.read(path, as_version=4).cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Jupyter's own packages
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_draws(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra eval is not installed")
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=240, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    drawn = [
        output
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "image/png" in output.get("data", {})
    ]
    assert drawn
