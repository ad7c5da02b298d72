"""The console's interface: its contract, who may ask, and what goes with every answer."""

import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from rootguard import MemoryStore
from rootguard.accounting import Ledger
from rootguard.channels.api_keys import ApiKeys
from rootguard.console import AccessControl, Console, own_key
from rootguard.console import access as access_module
from rootguard.console.access import POLICY, TEXTS
from rootguard.console.assets import FOLDER, Assets
from rootguard.errors import RootGuardError
from rootguard.session.session import speak_to
from rootguard.store.base import RECIPIENT, Recipient
from rootguard.values import Principal
from tests.support.console_servers import (
    KEY,
    NAME,
    SENTINELS,
    Served,
    console,
    open_person,
    viewer_of,
)
from tests.support.patience import PATIENCE

READS = ("me", "log", "log?after=0&limit=5", "live", "graph", "ledger", "outlook")
PATHS = (*(f"api/{path}" for path in READS), "api/", "api/nothing", "api/../api/me")


def fill(store: MemoryStore, principal: str = "owner") -> None:
    """Something of every kind."""
    mark = RECIPIENT.set(Recipient())
    person = open_person(store, principal)
    speak_to("api.example.com", "/v1/chat/completions")
    person.release("age")
    person.release("fib4")
    person.release("name")
    person.derive("age * ast / 47.318264951")
    with pytest.raises(RootGuardError):
        person.release("Zebulon")
    person.refuse_tokens({"phone": 2})
    RECIPIENT.reset(mark)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    store = MemoryStore()
    fill(store)
    with console(viewer_of(store)) as running:
        yield running


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_under_api_is_answered_without_a_key(
    served: Served, path: str, method: str
) -> None:
    for headers in ({}, {"authorization": "Bearer wrong"}, {"cookie": "rootguard_console=wrong"}):
        url = f"{served.address}/console/{path}"
        answer = served.client.request(method, url, headers=headers)
        assert answer.status_code == 401
        if method != "HEAD":
            assert answer.json() == {"error": {"message": TEXTS[401]}}


def test_an_attack_needs_a_key_too(served: Served) -> None:
    answer = served.client.post(f"{served.address}/console/api/attack", json={"template": "fib4"})
    assert answer.status_code == 401


def test_a_key_is_shown_once_and_a_cookie_opens_the_rest_until_it_is_given_back(
    served: Served,
) -> None:
    base = f"{served.address}/console/api"
    with httpx2.Client(trust_env=False, timeout=PATIENCE) as browser:
        for wrong in ({"key": "no"}, {"key": 7}, {}, [KEY], {"key": KEY + " "}):
            refused = browser.post(f"{base}/login", json=wrong)
            assert (refused.status_code, refused.json()) == (
                401,
                {"error": {"message": TEXTS[401]}},
            )
            assert "set-cookie" not in refused.headers
        answer = browser.post(f"{base}/login", json={"key": KEY})
        assert answer.status_code == 204
        cookie = answer.headers["set-cookie"]
        for part in ("HttpOnly", "SameSite=strict", "Path=/console"):
            assert part in cookie
        assert KEY not in cookie
        assert browser.get(f"{base}/me").status_code == 200
        kept = browser.cookies["rootguard_console"]
        assert browser.post(f"{base}/logout").status_code == 204
        again = browser.get(f"{base}/me", headers={"cookie": f"rootguard_console={kept}"})
        assert again.status_code == 401


def test_a_cookie_is_for_https_alone_where_the_page_came_by_it() -> None:
    with console(viewer_of(MemoryStore()), hosts=None) as served:
        answer = served.client.post(
            f"{served.address}/console/api/login",
            json={"key": KEY},
            headers={"host": "box.example", "origin": "https://box.example"},
        )
        assert "Secure" in answer.headers["set-cookie"]


def test_a_cookie_ends_after_a_while() -> None:
    now = [0.0]
    viewer = viewer_of(MemoryStore())
    access = AccessControl(lambda _: viewer, keys=own_key(KEY), clock=lambda: now[0])
    cookie = access.login(KEY)
    assert cookie is not None
    assert access.viewer(cookie=cookie, bearer="") is viewer
    now[0] = access_module.SESSION_SECONDS
    assert access.viewer(cookie=cookie, bearer="") is None


def test_keys_and_cookies_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []
    real = hmac.compare_digest

    def watched(a: bytes, b: bytes) -> bool:
        compared.append((a, b))
        return real(a, b)

    monkeypatch.setattr(hmac, "compare_digest", watched)
    viewer = viewer_of(MemoryStore())
    names = {hashlib.sha256(key.encode()).digest(): key for key in ("one", "two", "three")}
    access = AccessControl(lambda _: viewer, keys=ApiKeys(profiles=names))
    for key in ("one", "three", "none"):
        compared.clear()
        access.viewer(cookie="", bearer=key)
        assert len(compared) == 3  # every key, whichever matches
    cookies = [access.login("one") for _ in range(3)]
    compared.clear()
    assert access.viewer(cookie=str(cookies[0]), bearer="") is viewer
    assert len(compared) == 3


def test_each_key_opens_its_own_persons_console_and_no_other() -> None:
    store = MemoryStore()
    for who in ("edna", "otto"):
        fill(store, who)
    open_person(store, "otto").release("plt")
    keys = ApiKeys(
        profiles={
            hashlib.sha256(f"key of {who}".encode()).digest(): who for who in ("edna", "otto")
        }
    )
    with console(viewer_of(store, "edna"), viewer_of(store, "otto"), keys=keys) as served:
        for who, seen in (("edna", 10), ("otto", 11)):
            assert served.json("api/me", f"key of {who}")["principal"] == who
            assert served.json("api/log", f"key of {who}")["total"] == seen
            told = served.get("api/ledger", f"key of {who}").text
            assert ("otto" if who == "edna" else "edna") not in told


def test_without_keys_the_one_person_is_answered_at_once_on_loopback_alone() -> None:
    viewer = viewer_of(MemoryStore())
    app = Console(AccessControl(lambda _: viewer, keys=None), hosts=frozenset(("127.0.0.1",)))
    from rootguard.channels.http_server import make_server
    from tests.support.upstream import serving

    with serving(make_server(app.alone())) as address:
        assert httpx2.get(f"{address}/console/api/me", timeout=PATIENCE).status_code == 200
        there = {"host": "attacker.example"}
        answer = httpx2.get(f"{address}/console/api/me", headers=there, timeout=PATIENCE)
        assert (answer.status_code, answer.json()["error"]["message"]) == (421, TEXTS[421])


@pytest.mark.parametrize(
    "path", ["", "static/app.js", "static/nothing.js", "api/me", "api/login", "api/x", "nothing"]
)
def test_every_answer_carries_the_policy_of_the_page(served: Served, path: str) -> None:
    for key in (KEY, "wrong"):
        answer = served.get(path, key)
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        if path.startswith("api"):
            assert answer.headers["cache-control"] == "no-store"
    assert "unsafe" not in POLICY
    assert "*" not in POLICY


def test_the_address_without_a_slash_leads_to_the_page(served: Served) -> None:
    for path in ("", "/console"):
        answer = served.client.get(f"{served.address}{path}")
        assert answer.status_code == 307
        assert str(answer.url.join(answer.headers["location"])) == f"{served.address}/console/"
        assert answer.headers["content-security-policy"] == POLICY


@pytest.mark.parametrize("host", ["attacker.example", "127.0.0.1.attacker.example", "", "[::2]"])
def test_another_host_name_is_not_served(served: Served, host: str) -> None:
    answer = served.get("api/me", host=host)
    assert answer.status_code in (400, 421)
    assert "principal" not in answer.text


@pytest.mark.parametrize("origin", ["http://attacker.example", "null", "https://127.0.0.1"])
@pytest.mark.parametrize("path", ["api/login", "api/attack", "api/logout"])
def test_another_sites_page_may_not_post(served: Served, origin: str, path: str) -> None:
    answer = served.client.post(
        f"{served.address}/console/{path}",
        json={"key": KEY},
        headers={"origin": origin, "authorization": f"Bearer {KEY}"},
    )
    assert (answer.status_code, answer.json()) == (403, {"error": {"message": TEXTS[403]}})


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize("path", ["api/login", "api/attack", "api/logout"])
def test_another_sites_page_may_not_post_without_saying_where_it_is_from(
    served: Served, path: str, site: str
) -> None:
    """Only the browser's own word on it, which a page cannot set, is left to refuse by."""
    answer = served.client.post(
        f"{served.address}/console/{path}",
        json={"key": KEY},
        headers={"sec-fetch-site": site, "authorization": f"Bearer {KEY}"},
    )
    assert (answer.status_code, answer.json()) == (403, {"error": {"message": TEXTS[403]}})


def test_a_link_on_another_sites_page_may_lead_here(served: Served) -> None:
    assert served.get("", sec_fetch_site="cross-site").status_code == 200


def test_the_pages_own_origin_may_post(served: Served) -> None:
    url, own = f"{served.address}/console/api/login", {"origin": served.address}
    assert served.client.post(url, json={"key": KEY}, headers=own).status_code == 204
    own["sec-fetch-site"] = "same-origin"
    assert served.client.post(url, json={"key": KEY}, headers=own).status_code == 204


@pytest.mark.parametrize(
    "path",
    [
        "api/log?after=x",
        "api/log?before=-1",
        "api/log?limit=1e3",
        "api/outlook?mechanism=none",
        "api/outlook?turns=4k",
    ],
)
def test_what_makes_no_sense_is_refused_in_fixed_words(served: Served, path: str) -> None:
    answer = served.get(path)
    assert (answer.status_code, answer.json()) == (400, {"error": {"message": TEXTS[400]}})


@pytest.mark.parametrize("path", ["api/graph?template=bmi", "api/outlook?template=%2e%2e", "api/x"])
def test_what_is_not_the_persons_is_not_there(served: Served, path: str) -> None:
    answer = served.get(path)
    assert (answer.status_code, answer.json()) == (404, {"error": {"message": TEXTS[404]}})


def test_a_body_that_is_too_large_is_not_read(served: Served) -> None:
    body = json.dumps({"key": "x" * 10_000})
    answer = served.client.post(f"{served.address}/console/api/login", content=body)
    assert answer.status_code == 413


def test_an_error_inside_is_told_by_class_in_the_log_and_by_nothing_outside(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ValueError("47.318264951")

    monkeypatch.setattr("rootguard.console.app.ledger_json", fails)
    answer = served.get("api/ledger")
    assert (answer.status_code, answer.json()) == (500, {"error": {"message": TEXTS[500]}})
    assert caplog.text.count("unexpected ValueError") == 1
    assert "47.318" not in caplog.text


def test_me_says_what_is_public_of_a_profile(served: Served) -> None:
    me = served.json("api/me")
    assert me["principal"] == "owner"
    assert [each["name"] for each in me["templates"]] == ["fib4", "homa"]
    assert me["templates"][0]["roots"] == ["age", "ast", "alt", "plt"]
    assert me["templates"][0]["target"] == {"name": "fib4", "unit": ""}
    assert me["identifiers"] == ["name"]
    assert (me["mechanism"], me["calibrated"]) == ("geometric", False)


def test_entries_come_oldest_first_and_by_pages(served: Served) -> None:
    whole = served.json("api/log")
    ids = [each["id"] for each in whole["entries"]]
    assert ids == list(range(1, 11))
    assert (whole["first"], whole["latest"], whole["total"]) == (1, 10, 10)
    assert [c["id"] for c in served.json("api/log?after=7&limit=2")["entries"]] == [8, 9]
    assert [c["id"] for c in served.json("api/log?before=4&limit=2")["entries"]] == [2, 3]
    assert [c["id"] for c in served.json("api/log?limit=2")["entries"]] == [9, 10]


def test_an_entry_says_what_was_asked_answered_and_spent(served: Served) -> None:
    found: list[Any] = served.json("api/log")["entries"]
    fields = ["id", "at", "kind", "service", "tier", "name", "formula", "value", "unit"]
    fields += ["rests_on", "cost", "reason", "route", "rule", "places"]
    assert all(sorted(each) == sorted(fields) for each in found)
    assert [each["kind"] for each in found] == [
        *["noised"] * 4,
        *["released"] * 4,
        "refused",
        "unknown-identifier",
    ]
    noised, age, target, token, asked, refused, forged = found[0], *found[4:]
    assert noised["cost"] > 0
    assert (age["name"], age["unit"], age["rests_on"], age["cost"]) == ("age", "years", ["age"], 0)
    assert (age["service"], age["route"]) == ("api.example.com", "/v1/chat/completions")
    assert target["formula"] == "age * ast / (plt * sqrt(alt))"
    assert token["name"] == "name"
    assert isinstance(token["value"], str)
    assert (asked["name"], asked["formula"], asked["value"]) == ("", "age * ast / #", None)
    assert refused["reason"] == "nothing of this name is declared"
    assert forged["name"] == "phone"
    assert forged["reason"] == "a reply held 2 that were never issued to you"


def test_no_byte_of_any_answer_holds_a_raw_value(served: Served) -> None:
    with served.client.stream(
        "POST",
        f"{served.address}/console/api/attack",
        json={"template": "fib4"},
        headers={"authorization": f"Bearer {KEY}"},
    ) as attack:
        told = attack.read()
    while served.get("api/outlook").status_code == 202:
        threading.Event().wait(0.1)
    bodies = [served.get(path) for path in ("", "static/app.js", *PATHS) if "live" not in path]
    everything = b"\n".join(
        [told, *(each.content + repr(each.headers).encode() for each in bodies)]
    )
    digits = bytes(each for each in everything if chr(each).isdigit())
    for raw in SENTINELS.values():
        assert str(raw).encode() not in everything
        assert str(raw).replace(".", "").encode() not in digits
    for word in NAME.split():
        assert word.lower().encode() not in everything.lower()
    released = served.json("api/log")["entries"][4]["value"]
    assert repr(released).encode() in everything  # what may be shown is found in the same way
    assert repr(released).replace(".", "").encode() in digits


def test_the_page_is_compressed_and_asked_for_once(served: Served) -> None:
    answer = served.get("")
    assert answer.headers["content-encoding"] == "gzip"
    tag = answer.headers["etag"]
    assert served.get("", if_none_match=tag).status_code == 304


@pytest.mark.parametrize(
    "name", ["../app.py", "..%2fapp.py", ".hidden.js", "a//b.js", "app.py", ""]
)
def test_no_other_file_is_served(served: Served, name: str) -> None:
    assert served.get(f"static/{name}").status_code == 404
    assert (FOLDER.parent / "app.py").exists()


def test_a_package_without_the_pages_files_says_so(tmp_path: Path) -> None:
    found = Assets(tmp_path)._find("index.html")
    assert found is not None
    assert b"not installed" in found.plain


def test_a_principal_is_shown_without_a_profile_as_the_vault_keeps_it() -> None:
    from rootguard.console import of_principal
    from rootguard.errors import UnknownNameError

    store = MemoryStore()
    fill(store)
    viewer = of_principal("owner", store)
    assert "fib4" in {template.name for template in viewer.templates}
    plan = viewer.plan(viewer.template("fib4"))
    held = {share.root: share.epsilon for share in plan.shares}
    charged = Ledger(store.events(Principal("owner"))).micro
    for root, epsilon in held.items():
        assert float(epsilon) * 1e6 == pytest.approx(charged[root], abs=1)
    with pytest.raises(UnknownNameError):
        of_principal("stranger", store)
    with pytest.raises(UnknownNameError):
        of_principal("owner", store, ("homa",))
