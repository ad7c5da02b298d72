"""From a master key to what a store keeps and shows: known answers, computed once.

A change in any step would lock people out of their vault, draw noise again that a table has shown,
or lose issued tokens. The constants were computed before the steps stood in one file; they may
never be computed anew.
"""

from fractions import Fraction

import numpy as np
import pytest

from rootguard import Guard, MemoryStore, load_template
from rootguard.identifiers import Identifiers
from rootguard.mechanisms import mechanism
from rootguard.session.declared import issue_tokens
from rootguard.store import TableRun
from rootguard.store.envelope import SECRETS, Integrity, PersonCipher, Secrets, unwrap
from rootguard.store.tables import entry_type, partition_of, table_prf
from rootguard.values import Domain, MechanismName, Principal, Raw, RootName

MASTER, STORE_ID = bytes(range(32)), bytes(range(100, 116))
FINGERPRINT_KEY, IDENTIFIER_KEY = bytes(range(32, 64)), bytes(range(64, 96))
ANA, AST = Principal("ana"), RootName("ast")
DOMAIN = Domain(lower=5.0, upper=1000.0, size=1000)
VALUE = 61.375
TAG = 12636905367009919243
SHOWN = 205


class KnownStore(MemoryStore):
    """A store in memory whose secrets are known."""

    @property
    def fingerprint_key(self) -> bytes:
        return FINGERPRINT_KEY

    @property
    def identifier_key(self) -> bytes:
        return IDENTIFIER_KEY


def test_the_master_key_opens_a_secret_that_was_wrapped_before() -> None:
    wrapped = bytes.fromhex(
        "9fc743eeea51986db0d7924439a53f104b5578d4a7df8c729365fbcd2813c49942a4590fa55022d7dc14c34a"
        "0684b533f999f8385438a97505b148c4"
    )
    assert unwrap(MASTER, STORE_ID, {"fingerprint": wrapped}) == {"fingerprint": FINGERPRINT_KEY}


def test_a_row_is_sealed_and_found_as_before() -> None:
    assert Integrity(FINGERPRINT_KEY).seal("caps", "ana", "age", 500).hex() == (
        "8084ed25dc44616ac271f2ed7c78ea952433a35d3c18d4006e6b3635541c6776"
    )
    secrets = Secrets(dict.fromkeys(SECRETS, FINGERPRINT_KEY), STORE_ID)
    assert secrets.hash("ana") == "569642545ca596ce6029b6fad8564668"
    cipher = PersonCipher(FINGERPRINT_KEY * 2, "ana")
    assert cipher.place("draw", "age", 1, 0).hex() == "1e750b41661fb1093c37f1e38658a523"


def test_a_value_has_the_fingerprint_that_it_had() -> None:
    assert Raw(VALUE).number_fingerprint(FINGERPRINT_KEY, "ana\x00ast").hex() == (
        "c7c461e3e85b2b42f84f764050d8158da678fbf0259b97245ef9f787037d596e"
    )


@pytest.mark.parametrize(
    ("name", "drawn", "fingerprint"),
    [
        ("exponential", 61, 4199381272),
        ("laplace", 102, 3436191416),
        ("staircase", 273, 3946559972),
        ("geometric", 147, 1099685311),
    ],
)
def test_a_stores_key_gives_a_table_the_draw_and_fingerprint_that_it_showed(
    name: MechanismName, drawn: int, fingerprint: int
) -> None:
    prf = table_prf(FINGERPRINT_KEY)
    person = prf.person(ANA)
    assert int(prf.tags(person)[0]) == TAG
    point = np.array([Raw(VALUE).snap(DOMAIN)])
    epsilon = Fraction(1, 100)
    rows = prf.root(AST, DOMAIN, epsilon, name, 1).of(person, point)
    assert rows.fingerprints().tolist() == [fingerprint]
    assert mechanism(name, epsilon, DOMAIN.size).draw_rows(point, rows).tolist() == [drawn]


def test_a_person_of_a_table_is_given_the_draw_that_it_showed() -> None:
    """The whole way: from the store's secret to the value that a session releases."""
    template = load_template("fib4")
    domain = template.roots[AST].domain
    store = KnownStore()
    prf = table_prf(FINGERPRINT_KEY)
    streams = prf.root(AST, domain, Fraction(1, 5), "geometric", 1)
    rows = streams.of(prf.person(ANA), np.array([Raw(VALUE).snap(domain)]))
    entry = np.array([(TAG, rows.fingerprints())], dtype=entry_type(1)).tobytes()
    run = TableRun(
        table="all",
        root=AST,
        version=1,
        micro_epsilon=200_000,
        mechanism="geometric",
        domain=domain,
        rows=1,
        drawn=1,
        most=1,
    )
    place = partition_of(TAG)
    store.keep_table("all", lambda number, *_: entry if number == place else None, lambda: [run])
    values = {"age": 58, "ast": VALUE, "alt": 44, "plt": 220}
    session = Guard.open(template, values=values, budget="0.9", store=store, principal="ana")
    shown = store.levels(ANA, AST)[0].sanitized
    assert (shown.index, shown.epsilon) == (SHOWN, Fraction(1, 5))
    assert session.release("ast") == domain.value(SHOWN)


def test_an_identifier_is_given_the_token_that_it_had() -> None:
    declared = {
        "name": "Jane Roe",
        "record": "4415-8820",
        "phone": "+1 212 555 0147",
        "mail": "jane.roe@example.org",
    }
    store = KnownStore()
    tokens = issue_tokens(declared, None, store, store.snapshot(ANA))
    assert tokens.issued == {
        "name": "Astrid Forsberg",
        "record": "6607-7471",
        "phone": "+1 723 605 6626",
        "mail": "tjxl.mhx@gsthcjz.org",
    }
    assert isinstance(tokens.identifiers, Identifiers)
    assert tokens.identifiers.restore_text("Ask Astrid Forsberg.") == "Ask Jane Roe."
