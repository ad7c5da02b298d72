"""`rootguard vault`: look after the store in which values are kept, so that each is noised once."""

import sys
from typing import Any

import click

from rootguard.cli.options import (
    json_option,
    principal_option,
    read_values,
    store_option,
    template_argument,
)
from rootguard.cli.output import (
    EXIT_CHECK_FAILED,
    EXIT_CODES,
    Cell,
    console,
    number,
    table,
    write_json,
)
from rootguard.errors import BudgetError, StoreKeyError, UnknownNameError
from rootguard.events import to_record
from rootguard.session import Guard
from rootguard.store import Store, lifetime_cap
from rootguard.template import load_template
from rootguard.values import MICRO, Principal, RootName, parse_epsilon, to_micro
from rootguard.vault import open_store


@click.group("vault", epilog=EXIT_CODES)
def command() -> None:
    """Manage the store that holds the noised values.

    \b
    Examples:
      rootguard vault init
      rootguard vault show
      rootguard vault verify --store sqlite:///vault.sqlite3
    """


@command.command("init", epilog=EXIT_CODES)
@store_option
@json_option
def init(url: str, *, as_json: bool) -> None:
    """Create the store and its key, or check that both exist and fit.

    \b
    Example:
      rootguard vault init --store sqlite:///vault.sqlite3
    """
    store = open_store(url)
    people = len(store.principals())
    store.close()
    if as_json:
        write_json({"store": _public(url), "principals": people})
    else:
        console().print(f"{_public(url)} is ready; it holds {people} profiles", markup=False)


@command.command("show", epilog=EXIT_CODES)
@click.option("--principal", help="Only this one.")
@store_option
@json_option
def show(url: str, principal: str | None, *, as_json: bool) -> None:
    """Show what was released to whom, what it cost and what is left. No raw value is in there.

    \b
    Example:
      rootguard vault show
    """
    store = open_store(url)
    people = _people(store, principal)
    bodies = [_profile(store, person) for person in people]
    if as_json:
        write_json(bodies)
        return
    out = console()
    for body in bodies:
        _print_profile(body)
    if not bodies:
        out.print("nobody's values are kept here yet; rootguard release puts some in")


@command.command("spend", epilog=EXIT_CODES)
@principal_option
@click.option(
    "--cap",
    "caps",
    multiple=True,
    metavar="ROOT=EPSILON",
    help='Never spend more than this on a root, or with total=EPSILON in all; "none" lifts it.',
)
@store_option
@json_option
def spend(url: str, principal: str, caps: tuple[str, ...], *, as_json: bool) -> None:
    """Show what was spent over a lifetime, and set caps on it.

    \b
    Examples:
      rootguard vault spend
      rootguard vault spend --cap total=3 --cap ast=1
    """
    store = open_store(url)
    person = Principal(principal)
    for root, micro in [_cap(text) for text in caps]:
        store.set_cap(person, root, micro)
    body = _spending(store, person)
    if as_json:
        write_json(body)
        return
    rows = [
        (
            root,
            number(part["spent"]),
            _left(part["cap"]),
            _left(part["left"]),
            str(part["draws"]),
        )
        for root, part in body.items()
    ]
    columns = ("root", ">spent", ">cap", ">left", ">times noised")
    console().print(table(f"{principal}: lifetime epsilon per grid step", columns, rows))


@command.command("refine", epilog=EXIT_CODES)
@template_argument
@click.option("--values", type=click.Path(dir_okay=False, allow_dash=True), help="As for release.")
@click.option("--budget", required=True, help="The new total epsilon over the template's roots.")
@principal_option
@store_option
@json_option
def refine(
    template: str, values: str | None, budget: str, principal: str, url: str, *, as_json: bool
) -> None:
    """Raise the accuracy of values that were noised before, paying the difference only.

    \b
    Example:
      rootguard vault refine fib4 --values me.toml --budget 1.5
    """
    store = open_store(url)
    loaded = load_template(template)
    before = store.ledger(Principal(principal)).total
    session = Guard.refine(
        loaded,
        values=read_values(values, loaded),
        budget=parse_epsilon(budget),
        store=store,
        principal=principal,
    )
    paid = store.ledger(Principal(principal)).total - before
    if as_json:
        write_json({"paid": float(paid), "guarantee": session.guarantee().to_dict()})
    else:
        out = console()
        out.print(f"paid epsilon {float(paid):g}", markup=False)
        out.print(str(session.guarantee()), markup=False)


@command.command("revoke", epilog=EXIT_CODES)
@principal_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@store_option
@json_option
def revoke(url: str, principal: str, *, yes: bool, as_json: bool) -> None:
    """Delete a profile: its values, fingerprints, tokens and audit log. What was spent stays.

    Services keep what they were given, and a value noised again after this is a second draw that
    costs again.

    \b
    Example:
      rootguard vault revoke --principal owner
    """
    store = open_store(url)
    person = _people(store, principal)[0]
    if not yes:
        click.confirm(f"Delete what is kept of {principal}?", abort=True, err=True)
    store.erase(person)
    spent = float(store.ledger(person).total)
    if as_json:
        write_json({"principal": principal, "erased": True, "spent": spent})
    else:
        console().print(f"{principal} was erased; epsilon {spent:g} stays spent", markup=False)


@command.command("export", epilog=EXIT_CODES)
@principal_option
@store_option
def export(url: str, principal: str) -> None:
    """Print everything stored about a profile, as JSON: noised values, spending, the audit log.

    \b
    Example:
      rootguard vault export --principal owner > profile.json
    """
    store = open_store(url)
    person = _people(store, principal)[0]
    body = _profile(store, person)
    body["events"] = [to_record(event) for event in store.events(person)]
    body["crossings"] = [
        {
            "sequence": each.sequence,
            "at": each.micros / 1e6,
            "service": each.service,
            "route": each.route,
            "event": to_record(each.event),
        }
        for each in store.log(person)
    ]
    write_json(body)


@command.command("verify", epilog=EXIT_CODES)
@store_option
@json_option
def verify(url: str, *, as_json: bool) -> None:
    """Check every invariant of the store; exit with 1 if it is damaged.

    One draw per version and level, a ledger equal to its events, levels that nest, nothing that
    belongs to nothing, nothing altered.

    \b
    Example:
      rootguard vault verify
    """
    store = open_store(url)
    found = store.verify()
    if as_json:
        write_json({"store": _public(url), "holds": not found, "problems": list(found)})
    else:
        out = console()
        for problem in found:
            out.print(problem, markup=False)
        out.print("damaged" if found else "every invariant holds")
    if found:
        sys.exit(EXIT_CHECK_FAILED)


@command.command("tables", epilog=EXIT_CODES)
@store_option
@json_option
def tables(url: str, *, as_json: bool) -> None:
    """List the tables that were released: what a value cost, and how many were drawn.

    A person pays epsilon for each value of a root; nobody has had more of them than the last
    column says.

    \b
    Example:
      rootguard vault tables --json
    """
    store = open_store(url)
    runs = store.tables()
    store.close()
    if as_json:
        write_json(
            [
                {
                    "table": run.table,
                    "root": run.root,
                    "draw": run.version,
                    "epsilon": run.micro_epsilon / MICRO,
                    "mechanism": run.mechanism,
                    "rows": run.rows,
                    "drawn": run.drawn,
                    "most": run.most,
                }
                for run in runs
            ]
        )
        return
    rows = [
        (
            run.table.partition(" ")[0],
            f"{run.root} draw {run.version}",
            number(run.micro_epsilon / MICRO),
            str(run.rows),
            str(run.drawn),
            str(run.most),
        )
        for run in runs
    ]
    columns = ("template", "root", ">epsilon", ">rows", ">drawn anew", ">most per person")
    console().print(table("released tables", columns, rows))


@command.command("rotate-key", epilog=EXIT_CODES)
@store_option
@json_option
def rotate_key(url: str, *, as_json: bool) -> None:
    """Replace the master key, and re-encrypt the identifiers under a fresh secret.

    The new key is made here and kept where the old one was. If the old one came from
    ROOTGUARD_KEY, give the new one in ROOTGUARD_NEW_KEY and change ROOTGUARD_KEY afterwards.

    \b
    Example:
      rootguard vault rotate-key
    """
    from rootguard.store.keys import fresh_key
    from rootguard.store.sql import SqlStore

    store = open_store(url)
    if not isinstance(store, SqlStore):
        raise StoreKeyError("a store in memory has no key to rotate")
    store.rotate_key(fresh_key())
    if as_json:
        write_json({"store": _public(url), "rotated": True})
    else:
        console().print(f"{_public(url)} is under a new key", markup=False)


def _public(url: str) -> str:
    """A store's address without a password."""
    scheme, _, rest = url.partition("://")
    # From the last "@" on: a password may hold one too.
    return f"{scheme}://{rest.rpartition('@')[2]}" if "@" in rest else url


def _people(store: Store, principal: str | None) -> list[Principal]:
    everyone = list(store.principals())
    if principal is None:
        return everyone
    if principal not in everyone:
        raise UnknownNameError("principal", principal, tuple(everyone))
    return [Principal(principal)]


def _cap(text: str) -> tuple[str, int | None]:
    root, _, amount = text.partition("=")
    if not root or not amount:
        raise BudgetError("a cap is written ROOT=EPSILON, or total=EPSILON")
    micro = None if amount == "none" else to_micro(parse_epsilon(amount))
    return ("" if root == "total" else root), micro


def _left(value: float | None) -> str:
    return "" if value is None else number(value)


def _spending(store: Store, person: Principal) -> dict[str, dict[str, Any]]:
    ledger, caps = store.ledger(person), store.caps(person)
    spent = ledger.micro
    totals = {**spent, "": sum(spent.values())}
    body = {}
    for root in [*sorted(set(spent) | (set(caps) - {""})), ""]:
        used, cap = totals.get(root, 0), lifetime_cap(ledger, caps, root)
        body[root or "total"] = {
            "spent": used / MICRO,
            "cap": None if cap is None else cap / MICRO,
            "left": None if cap is None else max(cap - used, 0) / MICRO,
            "draws": ledger.draws.get(root, 0) if root else sum(ledger.draws.values()),
        }
    return body


def _profile(store: Store, person: Principal) -> dict[str, Any]:
    roots = sorted({event.root for event in store.events(person) if hasattr(event, "root")})
    given = store.disclosures(person)
    return {
        "principal": person,
        "roots": {
            root: [
                {
                    "version": record.sanitized.version,
                    "level": float(record.sanitized.epsilon),
                    "value": record.sanitized.value,
                    "mechanism": record.sanitized.mechanism,
                    "given_to": [
                        {"service": d.service, "tier": d.tier}
                        for d in given
                        if (d.root, d.version, d.position)
                        == (root, record.sanitized.version, record.position)
                    ],
                }
                for record in store.levels(person, RootName(root))
            ]
            for root in roots
        },
        "identifiers": len(store.tokens(person)),
        "spending": _spending(store, person),
    }


def _print_profile(body: dict[str, Any]) -> None:
    rows: list[tuple[Cell, ...]] = []
    for root, levels in body["roots"].items():
        for level in sorted(levels, key=lambda level: -float(level["level"])):
            given = ", ".join(
                (d["service"] or "unnamed") + (f" ({d['tier']})" if d["tier"] else "")
                for d in level["given_to"]
            )
            rows.append(
                (
                    f"{root} v{level['version']}",
                    number(level["level"]),
                    number(level["value"]),
                    given or "nobody yet",
                )
            )
        if not levels:
            rows.append((root, "", "", "erased"))
    out = console()
    columns = ("root", ">epsilon", ">noised value", "given to")
    out.print(table(f"{body['principal']}: what is kept", columns, rows))
    spending = [
        (root, number(part["spent"]), _left(part["left"]))
        for root, part in body["spending"].items()
    ]
    out.print(table(None, ("root", ">spent", ">left under its cap"), spending))
    if body["identifiers"]:
        out.print(f"{body['identifiers']} identifiers are replaced by tokens")
