"""Everything at once, by many processes: nothing is lost, nothing breaks, erased is erased."""

from collections import Counter
from contextlib import closing

import pytest

from rootguard import Guard
from tests.support.mixed_writers import FIB4, PEOPLE, PLENTY, Amount, Seen, work_until
from tests.support.patience import PATIENCE
from tests.support.store_contents import sql
from tests.support.store_writers import processes

PROCESSES, THREADS = 8, 4


def run(url: str, amount: Amount) -> list[Seen]:
    pipes = [processes.Pipe(duplex=False) for _ in range(PROCESSES)]
    running = [
        processes.Process(target=work_until, args=(url, number, THREADS, amount, send))
        for number, (_, send) in enumerate(pipes)
    ]
    for process in running:
        process.start()
    seen: list[Seen] = []
    for receive, send in pipes:
        send.close()
        seen += receive.recv()
        receive.close()
    for process in running:
        process.join(timeout=PATIENCE)
        assert process.exitcode == 0
    return seen


def check(url: str, amount: Amount) -> None:
    with closing(sql(url)) as store:
        for who in PEOPLE:
            for root in FIB4.roots:
                store.set_cap(who, root, PLENTY)
    seen = run(url, amount)
    done = sum((each.work for each in seen), Counter[str]())
    refused = sum((each.refused for each in seen), Counter[str]())
    print(f"done {dict(done)}, refused {dict(refused)}")  # noqa: T201 - how much of a race it was
    assert len(done) == 8, (done, refused)  # each kind of work was done
    # And budgets lasted: a race in which nothing more is drawn would find nothing.
    for kind in ("_open", "_serve"):
        assert done[kind] > refused[f"{kind} BudgetError"], (done, refused)
    problems = [problem for each in seen for problem in each.problems]
    assert problems == []
    with closing(sql(url)) as store:
        assert store.verify() == ()
        erasures = [erasure for each in seen for erasure in each.erasures]
        releases = [release for each in seen for release in each.releases]
        assert releases
        assert erasures
        for who in PEOPLE:
            # The n-th erasure to end was at least the n-th to be made: whatever was asked for
            # after it rests on an epoch of n or more.
            ends = sorted(end for name, end in erasures if name == who)
            assert store.epoch(who) >= len(ends)
            for name, epoch, asked in releases:
                assert name != who or epoch >= sum(end < asked for end in ends)
            # And what there is now can be used.
            Guard.open(
                FIB4,
                values={"age": 52.0, "ast": 61.0, "alt": 40.0, "plt": 180.0},
                budget="0.4",
                store=store,
                principal=f"new {who}",
            ).target()
        assert store.verify() == ()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("steps", [20, pytest.param(40, marks=pytest.mark.slow)])
def test_a_mixed_race_leaves_a_sound_store(url: str, steps: int) -> None:
    """With 40 steps, over a thousand of all threads: of the rarest kind of work some ten."""
    check(url, Amount(steps=steps))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_minutes_of_a_mixed_race_leave_a_sound_store(url: str) -> None:
    check(url, Amount(seconds=120))
