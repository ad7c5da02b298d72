"""Every recipe in `examples` runs, and says of itself what it must show."""

import importlib.util
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
NEEDS = {
    "agent": (),
    "tool_loop": ("pint",),
    "lenders": (),
    "table": ("pyarrow",),
    "langgraph_clinic": ("langchain", "pint"),
}


@pytest.mark.parametrize("name", NEEDS)
def test_a_recipe_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for package in NEEDS[name]:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed; `make extras` installs it")
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out


def test_a_researchers_mechanism_is_certified_and_studied() -> None:
    # In a process of its own: it adds to the table of mechanisms.
    command = [sys.executable, str(EXAMPLES / "mechanism.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "hasty    claims 0.100, has 0.6" in done.stdout
    assert "midway     {'all':" in done.stdout


def test_many_users_of_one_application_share_a_database(new_postgres: Callable[[], str]) -> None:
    pytest.importorskip("fastapi", reason="`make extras` installs FastAPI")
    pytest.importorskip("httpx", reason="FastAPI's test client needs httpx")
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the test client's own packages
        from fastapi.testclient import TestClient

    from rootguard import open_store

    store = open_store(new_postgres(), key=bytes(range(32)), create=True)
    program = runpy.run_path(str(EXAMPLES / "clinic_app.py"))
    made: dict[str, Any] = {}
    for process in ("first", "second"):  # as two workers would: nothing is shared but the database
        client = TestClient(program["build"](store))
        for key, name in (("key-0", "Jane Roe"), ("key-1", "Omar Diaz")):
            said = f"I'm {name}. My AST is 61.4 U/L."
            reply = client.post("/chat", params={"text": said}, headers={"x-key": key})
            assert reply.status_code == 200
            assert name in reply.json()["reply"]
            made[f"{process} {key}"] = program["asked"][-1].rpartition("AST is ")[2]
        assert client.post("/chat", params={"text": "x"}, headers={"x-key": "?"}).status_code == 401
    assert made["first key-0"] == made["second key-0"]  # noised once, for both workers
    assert made["first key-1"] == made["second key-1"]
    seen = "".join(program["asked"])
    # Whole words: a name in its place may begin like the owner's ("Janelle").
    assert not re.search(r"\b(Jane|Roe|Omar|Diaz)\b|61\.4", seen)
    store.close()
