"""Five chats at once that all speak of one glucose, and a check that one value of it was told.

The chats race for the first sight, and every turn sends its whole chat again, by another gateway
than the last. The number that is written differs from chat to chat: it is the root that counts.
"""

import re
import threading
from collections.abc import Sequence
from typing import Any

import httpx2

from rootguard.events import RootNoised
from rootguard.values import Principal, RootName
from rootguard.vault import open_store
from tests.support.gateway_processes import Started
from tests.support.patience import PATIENCE
from tests.support.upstream import Recording

CHATS, TURNS, REPLICAS = 5, 10, 3
PROFILE = """
templates = ["homa"]
budget = "0.1"

[identifiers]
name = "Marguerite Oyelaran"
"""
PER_MG_DL = {"mg/dL": 1.0, "mmol/L": 10 / 180.156, "g/L": 0.01, "mg/L": 10.0}
"""Units, and how many of each 1 mg/dL of glucose, C6H12O6, is."""

STEP = {"mg/dL": 1.0, "mmol/L": 0.1, "g/L": 0.01, "mg/L": 10.0}
"""How finely a text has glucose in each of them."""
UNITS = tuple(PER_MG_DL)
WRITTEN = {
    "mg/dL": ("106.3", "107", "106", "106.25", "108"),
    "mmol/L": ("5.9", "5.91", "5.94", "5.88", "6.0"),
    "g/L": ("1.063", "1.07", "1.06", "1.0625", "1.08"),
    "mg/L": ("1063", "1070", "1060", "1062.5", "1080"),
}
"""How each of the chats writes the same glucose."""

SENTENCES = (
    "I am Marguerite Oyelaran and my fasting glucose is {0} {1}. Is that high?",
    "Blood sugar: {0} {1}, says the report.",
    "What does a glucose of {0} {1} mean for me?",
    "FPG {0} {1}",
    "And if it stays at a fasting plasma glucose of {0} {1}?",
)


def said(chat: int, turn: int) -> str:
    unit = UNITS[(chat + turn) % len(UNITS)]
    return SENTENCES[turn % len(SENTENCES)].format(WRITTEN[unit][chat], unit)


def talk(gateways: Sequence[Started]) -> None:
    """All chats at once, each turn through another gateway."""
    start = threading.Barrier(CHATS)
    problems: list[Exception] = []

    def chat(number: int) -> None:
        try:
            with httpx2.Client(trust_env=False, timeout=PATIENCE) as client:
                start.wait()
                converse(client, number)
        except Exception as problem:  # noqa: BLE001 - looked at below
            problems.append(problem)

    def converse(client: httpx2.Client, number: int) -> None:
        history: list[dict[str, Any]] = []
        for turn in range(TURNS):
            history.append({"role": "user", "content": said(number, turn)})
            base = gateways[(number + turn) % len(gateways)].base
            body = {"model": f"chat-{number}", "messages": history}
            answer = client.post(f"{base}/chat/completions", json=body)
            assert answer.status_code == 200, answer.text
            history.append(answer.json()["choices"][0]["message"])

    threads = [threading.Thread(target=chat, args=(number,)) for number in range(CHATS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def texts(recording: Recording) -> list[str]:
    return [message["content"] for body in recording.bodies for message in body["messages"]]


def seen(recording: Recording) -> dict[str, set[str]]:
    """The numbers that the upstream was told, by unit, over all turns of all chats."""
    found: dict[str, set[str]] = {unit: set() for unit in UNITS}
    mentions = 0
    for text in texts(recording):
        for number, unit in re.findall(r"([0-9.]+) (mg/dL|mmol/L|g/L|mg/L)", text):
            found[unit].add(number)
            mentions += 1
    # Turn n sends n questions and the n - 1 echoes of the earlier ones.
    assert mentions == CHATS * TURNS**2
    return found


def check_one_value(recording: Recording, store: str, key: str) -> None:
    """One number in each unit, all of the one value that the vault holds, noised once."""
    assert len(recording.bodies) == CHATS * TURNS
    told = seen(recording)
    assert {unit: len(numbers) for unit, numbers in told.items()} == dict.fromkeys(UNITS, 1)
    assert b"Oyelaran" not in recording.everything
    names = {name for text in texts(recording) for name in re.findall(r"I am (\w+ \w+) and", text)}
    assert len(names) == 1
    vault = open_store(store, key=bytes.fromhex(key) if key else None)
    try:
        (charged,) = vault.events(Principal("owner"))
        assert isinstance(charged, RootNoised)
        assert charged.root == "glu"
        (level,) = vault.levels(Principal("owner"), RootName(charged.root))
        assert vault.verify() == ()
    finally:
        vault.close()
    for unit, (number,) in told.items():
        exact = level.sanitized.value * PER_MG_DL[unit]
        assert abs(float(number) - exact) <= STEP[unit] / 2 * 1.01
