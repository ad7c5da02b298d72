"""`rootguard vault`: look after the store in which values are kept, so that each is noised once."""

import os
import sys
from collections import Counter
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from rootguard.cli.options import (
    json_option,
    principal_option,
    read_values,
    root_titles,
    store_option,
    template_argument,
)
from rootguard.cli.output import (
    EXIT_CHECK_FAILED,
    EXIT_CODES,
    Cell,
    Result,
    console,
    number,
    progress_of_rows,
    table,
    write_json,
)
from rootguard.cli.output import show as show_result
from rootguard.errors import BudgetError, StoreKeyError, UnknownNameError
from rootguard.values import MICRO, Principal, RootName, parse_epsilon, to_micro

if TYPE_CHECKING:
    from rootguard.store import Record, Store

_FILE: Final = click.Path(dir_okay=False, path_type=Path)
anchor_option = click.option(
    "--anchor", type=_FILE, help="A file outside the database that shows what was put back."
)

_SHOWN_NAMES = 20  # of those who are there, where somebody is not


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
    from rootguard.vault import open_store

    store = open_store(url, create=True)
    people, vault = len(store.principals()), store.vault_id
    store.close()
    if as_json:
        write_json({"store": _public(url), "vault": vault, "principals": people})
    else:
        out = console()
        out.print(
            f"{_public(url)} is ready; it holds {people} profile{'' if people == 1 else 's'}",
            markup=False,
        )
        out.print(f"its id is {vault}", markup=False)


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
    from rootguard.vault import open_store

    store = open_store(url, create=False)
    people = _people(store, principal)
    bodies = [_profile(store, person) for person in people]
    if as_json:
        write_json(bodies)
        return
    out = console()
    for body in bodies:
        _print_profile(body)
    if not bodies:
        out.print(
            "nobody's values are stored here yet; rootguard init or rootguard release stores some"
        )


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
    from rootguard.vault import open_store

    store = open_store(url, create=False)
    person = _people(store, principal)[0]
    wanted = [_cap(text) for text in caps]
    known = {"", *store.quantities(), *store.ledger(person).micro, *store.caps(person)}
    for root, _ in wanted:
        if root not in known:
            raise UnknownNameError("root", root, tuple(sorted(known - {""})))
    if wanted:
        store.set_caps(person, dict(wanted))
    body = _spending(store, person)
    if as_json:
        write_json(body)
        return
    titles = root_titles()
    rows = [
        (
            titles.get(root, root),
            number(part["spent"]),
            _left(part["cap"]),
            _left(part["left"]),
            str(part["draws"]),
        )
        for root, part in body.items()
    ]
    columns = ("value", ">spent", ">cap", ">left", ">times noised")
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
    from rootguard.session import Guard
    from rootguard.template import load_template
    from rootguard.vault import open_store

    store = open_store(url, create=False)
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
        out.print(f"paid epsilon {number(float(paid))}", markup=False)
        out.print(str(session.guarantee()), markup=False)


@command.command("erase", epilog=EXIT_CODES)
@click.argument("principal")
@click.option("--yes", is_flag=True, help="Do not ask.")
@store_option
@json_option
def erase(url: str, principal: str, *, yes: bool, as_json: bool) -> None:
    """Delete what is kept of PRINCIPAL: values, fingerprints, tokens, audit log.

    What was spent stays on record, and so do the caps. Backups and copies are not reached.

    Services keep what they were given, and a value noised again after this is a second draw that
    costs again.

    \b
    Example:
      rootguard vault erase owner
    """
    from rootguard.vault import open_store

    store = open_store(url, create=False)
    person = _people(store, principal)[0]
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("nothing was erased: there is nobody to ask here; give --yes")
        click.confirm(
            f"Delete what is kept of {principal}? It cannot be undone", abort=True, err=True
        )
    store.erase(person)
    spent = float(store.ledger(person).total)
    if as_json:
        write_json({"principal": principal, "erased": True, "spent": spent})
    else:
        console().print(
            f"{principal} was erased; epsilon {number(spent)} stays spent", markup=False
        )
        if url.startswith("postgres"):
            console().print(
                "The server keeps deleted rows, encrypted, until it has vacuumed and its log and"
                " backups are gone. Nobody can read them without the vault's key; to make them"
                " unreadable with it as well, run: rootguard vault rotate-key"
            )


@command.command("export", epilog=EXIT_CODES)
@principal_option
@store_option
def export(url: str, principal: str) -> None:
    """Print everything that is kept of a person, as one JSON document.

    Every version of every value at every level, who was given it, the ledger, caps, the audit log,
    and what tables drew. docs/vault.md says what each key means. No raw value is in there.

    \b
    Example:
      rootguard vault export --principal owner > profile.json
    """
    from rootguard.vault import open_store

    store = open_store(url, create=False)
    write_json(_export(store, _people(store, principal)[0]))


@command.command("verify", epilog=EXIT_CODES)
@anchor_option
@store_option
@json_option
def verify(url: str, anchor: Path | None, *, as_json: bool) -> None:
    """Check every invariant of the store; exit with 1 if it is damaged.

    One draw per version and level, a ledger equal to its events, levels that nest, nothing that
    belongs to nothing, nothing altered. With --anchor, also nothing that was put back to an
    earlier state; if all is well, the anchor is advanced, or made if there is none.

    \b
    Examples:
      rootguard vault verify
      rootguard vault verify --anchor ~/elsewhere/vault.anchor
    """
    from rootguard.vault import advance_anchor, anchor_store, open_store

    store = open_store(url, create=False)
    made = anchor is not None and not anchor.exists()
    if anchor is not None:
        anchor_store(store, anchor, create=True)
    found = store.verify()
    if anchor is not None and not found:
        advance_anchor(store)
    if as_json:
        write_json(
            {
                "store": _public(url),
                "vault": store.vault_id,
                "holds": not found,
                "problems": list(found),
            }
            | ({} if anchor is None else {"anchor": "made" if made else "checked"})
        )
    else:
        out = console()
        for problem in found:
            out.print(problem, markup=False)
        out.print("damaged" if found else "every invariant holds")
        if made:
            out.print(
                f"There was no anchor at {anchor}, so one was made. It shows what is put back from"
                " now on, and nothing that was put back before.",
                markup=False,
            )
    if found:
        sys.exit(EXIT_CHECK_FAILED)


@command.command("backup", epilog=EXIT_CODES)
@click.option("--out", required=True, type=_FILE, help="The file to write. It must not exist.")
@anchor_option
@store_option
@json_option
def backup(url: str, out: Path, anchor: Path | None, *, as_json: bool) -> None:
    """Write all of the store into a file, also while others use the store.

    The file is a store itself, encrypted and under the same key. The key is not in it: keep the
    key somewhere else. With --anchor, the store is checked against the anchor first.

    \b
    Example:
      rootguard vault backup --out vault-2026-11-16.backup
    """
    from rootguard.vault import advance_anchor, backup_store, key_location, open_store

    with closing(open_store(url, create=False, anchor=anchor)) as store, progress_of_rows() as told:
        rows = backup_store(store, out, progress=told)
        if anchor is not None:
            advance_anchor(store)
        vault, key = store.vault_id, key_location(store)
    body = {"store": _public(url), "vault": vault, "rows": rows, "file": str(out), "key": key}
    lines = [
        f"{out} holds the vault {vault}: {rows} rows, each compared with the original",
        f"the key in {key} opens it and is not in it: keep a copy of the key somewhere else",
    ]
    show_result(Result(document=body, parts=lines), as_json=as_json)


@command.command("restore", epilog=EXIT_CODES)
@click.option("--from", "source", required=True, type=_FILE, help="A file that backup wrote.")
@anchor_option
@store_option
@json_option
def restore(url: str, source: Path, anchor: Path | None, *, as_json: bool) -> None:
    """Put a backup where there is no store. Nothing is overwritten.

    The key comes from ROOTGUARD_KEY, else from where the key of --store is kept, else from beside
    the backup (FILE.key). With --anchor, a backup that is older than the anchor is refused.

    \b
    Example:
      rootguard vault restore --from vault-2026-11-16.backup \\
        --store sqlite:///vault.sqlite3
    """
    from rootguard.vault import open_store, restore_store

    with progress_of_rows() as told:
        rows = restore_store(source, url, anchor=anchor, progress=told)
    with closing(open_store(url, create=False)) as store:
        vault = store.vault_id
    body = {"store": _public(url), "vault": vault, "rows": rows, "file": str(source)}
    lines = [
        f"{_public(url)} holds the vault {vault}: {rows} rows, each compared with the backup",
        "what was noised after the backup is not in it and will be noised a second time",
    ]
    show_result(Result(document=body, parts=lines), as_json=as_json)


@command.command("copy", epilog=EXIT_CODES)
@click.option("--from", "source", required=True, help="The store: sqlite:///FILE or postgresql://…")
@click.option("--to", "target", required=True, help="Where there is none: sqlite:///FILE or …")
@anchor_option
@json_option
def copy(source: str, target: str, anchor: Path | None, *, as_json: bool) -> None:
    """Copy a store to another place, from SQLite to PostgreSQL or back, also while it is used.

    The copy is the same vault under the same key and id. With --anchor, the store is checked
    against the anchor first.

    \b
    Example:
      rootguard vault copy --from sqlite:///vault.sqlite3 \\
        --to postgresql://rootguard@db/vault
    """
    from rootguard.vault import copy_store, open_store

    with (
        closing(open_store(source, create=False, anchor=anchor)) as store,
        progress_of_rows() as told,
    ):
        rows = copy_store(store, target, progress=told)
        vault = store.vault_id
    body = {"from": _public(source), "to": _public(target), "vault": vault, "rows": rows}
    lines = [
        f"{_public(target)} holds the vault {vault}: {rows} rows, each compared with the original",
        "use only one of the two from now on: each would noise new values on its own",
    ]
    show_result(Result(document=body, parts=lines), as_json=as_json)


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
    from rootguard.vault import open_store

    store = open_store(url, create=False)
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
    titles = root_titles()
    rows = [
        (
            run.table.partition(" ")[0],
            f"{titles.get(run.root, run.root)}, draw {run.version}",
            number(run.micro_epsilon / MICRO),
            str(run.rows),
            str(run.drawn),
            str(run.most),
        )
        for run in runs
    ]
    if not rows:
        console().print("no table was released yet; rootguard batch releases one")
        return
    columns = ("template", "value", ">epsilon", ">rows", ">drawn anew", ">most per person")
    console().print(table("released tables", columns, rows))


@command.command("rotate-key", epilog=EXIT_CODES)
@store_option
@json_option
def rotate_key(url: str, *, as_json: bool) -> None:
    """Replace the master key and the secrets that seal the vault and wrap each person's key.

    The new key is made here and kept where the old one was. If the old one came from
    ROOTGUARD_KEY, give the new one in ROOTGUARD_NEW_KEY and change ROOTGUARD_KEY afterwards.
    Processes that use the vault go on; those that have ROOTGUARD_KEY need ROOTGUARD_NEW_KEY too.

    Each person's own key stays as it is, and so do the secrets behind fingerprints of values and
    behind issued tokens. Whoever took them from a copy of the vault and its old key still has them.

    \b
    Example:
      rootguard vault rotate-key
    """
    from rootguard.store.envelope import RENEWED, SECRETS
    from rootguard.store.keys import NEXT_VARIABLE, VARIABLE, fresh_key
    from rootguard.store.sql import SqlStore
    from rootguard.vault import open_store

    store = open_store(url, create=False)
    if not isinstance(store, SqlStore):
        raise StoreKeyError("a store in memory has no key to rotate")
    gone = store.rotate_key(fresh_key())
    if not gone:
        click.echo(
            "not yet: a reader holds the log, so the secrets under the old key are still in the"
            " file and open with it. Close the reader, and rotate once more",
            err=True,
        )
    if as_json:
        kept = [*(name for name in SECRETS if name not in RENEWED), "person_keys"]
        write_json({"store": _public(url), "rotated": True, "renewed": list(RENEWED), "kept": kept})
    else:
        console().print(f"{_public(url)} is under a new key.", markup=False)
        if VARIABLE in os.environ:
            console().print(f"Set {VARIABLE} to it now, everywhere; {NEXT_VARIABLE} can go then.")
        console().print(
            "Renewed: the master key, the seals of the vault, the wrapping of each person's key.\n"
            "Not renewed: each person's own key, and the secrets behind fingerprints of values and"
            " behind issued tokens. The vault could not recognise a value or restore a token"
            " without them. Whoever has an old key and a copy of the vault from its time can take"
            " them from it, read the rows of the people in it, in later copies too, and test"
            " guesses of a value: delete such copies, or keep their key safe."
        )
        if len(addresses := store.addresses()) > 1:
            files = "\n".join(f"  {file}" for file in addresses)
            console().print(
                "The old key stays beside the new one: this vault was copied to another address"
                " from here, and the copy may need it. When a copy is gone, remove its file and"
                f" rotate once more:\n{files}",
                markup=False,
                soft_wrap=True,
            )


def _public(url: str) -> str:
    """A store's address without a user, a password and whatever else may hold one."""
    if not url.startswith("postgres"):
        return url
    scheme, _, rest = url.partition("://")
    address, _, query = rest.partition("?")
    if "@" in query:  # a password that should have been written with %40 and %3F
        return f"{scheme}://…"
    schema = next((part for part in query.split("&") if part.startswith("schema=")), "")
    return f"{scheme}://{address.rpartition('@')[2]}{'?' * bool(schema)}{schema}"


def _people(store: "Store", principal: str | None) -> list[Principal]:
    """Everyone, or the one of this name. An erased person has no name there, but has spent."""
    if principal is None:
        return list(store.principals())
    person = Principal(principal)
    kept = store.snapshot(person)
    # Not by the list of everyone, which has to be read whole and has one spelling of each name.
    if not (kept.epoch or kept.ledger.micro or kept.caps or len(store.tokens(person))):
        everyone = store.principals()
        if person not in everyone:
            raise UnknownNameError("principal", principal, everyone[:_SHOWN_NAMES])
    return [person]


def _cap(text: str) -> tuple[str, int | None]:
    root, _, amount = text.partition("=")
    if not root or not amount:
        raise BudgetError("a cap is written ROOT=EPSILON, or total=EPSILON")
    micro = None if amount == "none" else to_micro(parse_epsilon(amount))
    return ("" if root == "total" else root), micro


def _export(store: "Store", person: Principal) -> dict[str, Any]:
    """Everything that is kept of a person. What only the vault's keys can read is counted."""
    from rootguard.accounting import Ledger
    from rootguard.events import to_record

    events, kept = store.events(person), store.snapshot(person)
    ledger, of_events = kept.ledger, Ledger(events)
    kinds = Counter(entry.kind for entry in store.tokens(person))
    versions: dict[str, dict[int, list[Record]]] = {}
    for record in store.records(person):
        drawn = record.sanitized
        versions.setdefault(drawn.root, {}).setdefault(drawn.version, []).append(record)
    return {
        "vault": store.vault_id,
        "principal": kept.name,
        "erasures": kept.epoch,
        "roots": {
            root: {
                "unit": kept.quantities[RootName(root)].unit,
                "current": kept.levels[RootName(root)][0].sanitized.version,
                "versions": [
                    {"version": number, "levels": [_level(record) for record in levels]}
                    for number, levels in sorted(found.items())
                ],
            }
            for root, found in sorted(versions.items())
        },
        "disclosures": [asdict(each) for each in store.disclosures(person)],
        "spending": _spending(store, person),
        "caps": {root or "total": micro / MICRO for root, micro in kept.caps.items()},
        "ledger": [to_record(event) for event in events],
        "tables": {
            root: {
                "draws": ledger.draws[root] - of_events.draws.get(root, 0),
                "epsilon": (micro - of_events.micro.get(root, 0)) / MICRO,
            }
            for root, micro in sorted(ledger.micro.items())
            if ledger.draws[root] != of_events.draws.get(root, 0)
        },
        "identifiers": {"tokens": sum(kinds.values()), "kinds": dict(sorted(kinds.items()))},
        "log": [
            {
                "sequence": each.sequence,
                "at": each.micros / 1e6,
                "service": each.service,
                "route": each.route,
                "event": to_record(each.event),
            }
            for each in store.log(person)
        ],
    }


def _level(record: "Record") -> dict[str, Any]:
    drawn = record.sanitized
    return {
        "position": record.position,
        "epsilon": float(drawn.epsilon),
        "value": drawn.value,
        "mechanism": drawn.mechanism,
        "lower": drawn.domain.lower,
        "upper": drawn.domain.upper,
        "points": drawn.domain.size,
    }


def _left(value: float | None) -> str:
    return "" if value is None else number(value)


def _spending(store: "Store", person: Principal) -> dict[str, dict[str, Any]]:
    from rootguard.store import lifetime_cap

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


def _profile(store: "Store", person: Principal) -> dict[str, Any]:
    roots = sorted({event.root for event in store.events(person) if hasattr(event, "root")})
    # A draw that nobody was given is not shown: an owner who has seen it must not replace it.
    given: dict[tuple[str, int, int], list[dict[str, str]]] = {}
    for each in store.disclosures(person):
        told = given.setdefault((each.root, each.version, each.position), [])
        told.append({"service": each.service, "tier": each.tier})
    return {
        "principal": person,
        "roots": {
            root: [
                {
                    "version": record.sanitized.version,
                    "level": float(record.sanitized.epsilon),
                    "value": record.sanitized.value if to else None,
                    "mechanism": record.sanitized.mechanism,
                    "given_to": to,
                }
                for record in store.levels(person, RootName(root))
                for to in [given.get((root, record.sanitized.version, record.position), [])]
            ]
            for root in roots
        },
        "identifiers": len(store.tokens(person)),
        "spending": _spending(store, person),
    }


def _print_profile(body: dict[str, Any]) -> None:
    titles = root_titles()
    rows: list[tuple[Cell, ...]] = []
    for root, levels in body["roots"].items():
        for level in sorted(levels, key=lambda level: -float(level["level"])):
            given = ", ".join(
                (d["service"] or "unnamed") + (f" ({d['tier']})" if d["tier"] else "")
                for d in level["given_to"]
            )
            rows.append(
                (
                    titles.get(root, root),
                    str(level["version"]),
                    number(level["level"]),
                    "not shown yet" if level["value"] is None else number(level["value"]),
                    given or "nobody yet",
                )
            )
        if not levels:
            rows.append((titles.get(root, root), "", "", "", "erased"))
    out = console()
    columns = ("value", ">draw", ">epsilon", ">noised value", "given to")
    out.print(table(f"{body['principal']}: what is stored", columns, rows))
    spending = [
        (titles.get(root, root), number(part["spent"]), _left(part["left"]))
        for root, part in body["spending"].items()
    ]
    out.print(table(None, ("value", ">epsilon spent", ">left under its cap"), spending))
    many = body["identifiers"]
    if many:
        out.print(f"{many} identifier{' is' if many == 1 else 's are'} replaced by tokens")
