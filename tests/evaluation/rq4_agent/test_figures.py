"""The agent study's figures: from transcripts alone, beside RQ1 and the published tables."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from rootguard.advice.people import PAPER_TEMPLATES
from rootguard.advice.utility import TURNS
from rootguard.attacks.belief import prior
from rootguard.attacks.map import map_estimates
from rootguard.attacks.oracle import grid
from rootguard.cli.bench import (
    AGENT_CONFIGURATION_NAMES,
    BACKEND_NAMES,
    DECODING_NAMES,
    TURN_NAMES,
    rq4,
)
from rootguard.evaluation.cohorts import read_cohort
from rootguard.evaluation.rq4_agent.claims import (
    agent_comparison_sheets,
    agent_sheets,
    compare_agent,
    matching,
    means,
    ordering,
    published_agent,
)
from rootguard.evaluation.rq4_agent.figures import AgentRow, agent_rows, compliance
from rootguard.evaluation.rq4_agent.local import DECODINGS
from rootguard.evaluation.rq4_agent.patients import (
    AGENT_CONFIGURATIONS,
    PUBLISHED_ACTIVE,
    AgentCell,
    Asked,
    PatientGroup,
    only,
)
from rootguard.evaluation.rq4_agent.study import Grid, Transcripts
from rootguard.mechanisms import mechanism
from rootguard.template import load_template
from tests.support.agents import Garbling, held, patient_group
from tests.support.cohort import FOLDER, needs_cohort

ONE = Grid(epsilons=(Fraction("0.1"),), budgets=("2k+1",))


def rows_of(plan: Grid, groups: Sequence[PatientGroup], path: Path) -> list[AgentRow]:
    return agent_rows(plan, groups, "scripted", held(plan, list(groups), path))


def test_the_adversary_computes_from_the_final_turn(tmp_path: Path) -> None:
    plan = Grid(epsilons=ONE.epsilons, budgets=ONE.budgets, configurations=("all",))
    people = patient_group("homa", patients=5)
    transcripts = held(plan, [people], tmp_path / "t.jsonl")
    (row,) = agent_rows(plan, [people], "scripted", transcripts)

    last = [record["turns"][-1]["read"] for record in transcripts]
    said = np.array([each["glu"] * each["ins"] / 405 for each in last])
    expected = 100 * np.abs(said - people.truth).sum() / np.abs(people.truth).sum()
    assert row.wmape == pytest.approx(expected, abs=1e-6)
    assert (row.sessions, row.missing, row.failed_sessions) == (5, 0, 0)
    assert row.observations == row.exact == 5 * (4 + 2)


def test_a_class_two_off_is_one_wrong_class_and_twice_the_risk_class_error(tmp_path: Path) -> None:
    def far(turn: int, reply: str) -> str:
        return re.sub(r"\d+\.\d+", "0.001", reply)

    plan = Grid(epsilons=ONE.epsilons, budgets=ONE.budgets, configurations=("opt",))
    people = patient_group("homa", patients=5)
    classes = [people.template.risk.index(people.template.classify(y)) for y in people.truth]
    transcripts = held(plan, [people], tmp_path / "t.jsonl", Garbling(far))
    (row,) = agent_rows(plan, [people], "garbling", transcripts)

    assert row.misclassified == pytest.approx(100 * np.mean([number > 0 for number in classes]))
    assert row.rce == pytest.approx(100 * np.mean(classes) / 2)
    assert row.invented == row.observations


def test_a_root_that_the_last_reply_lacks_is_taken_from_an_earlier_one(tmp_path: Path) -> None:
    def silent(turn: int, reply: str) -> str:
        return "I would rather not say." if turn == 4 else reply

    plan = Grid(epsilons=ONE.epsilons, budgets=ONE.budgets, configurations=("opt",))
    people = patient_group("homa", patients=3)
    (clean,) = rows_of(plan, [people], tmp_path / "a.jsonl")
    transcripts = held(plan, [people], tmp_path / "b.jsonl", Garbling(silent))
    (row,) = agent_rows(plan, [people], "garbling", transcripts)

    assert row.wmape == clean.wmape
    assert (row.failed_sessions, row.unparsed, row.missing) == (3, 6, 0)


def test_a_session_without_a_target_is_counted_and_not_guessed(tmp_path: Path) -> None:
    calls = iter(range(1000))

    def mute_first(turn: int, reply: str) -> str:
        return "No." if next(calls) < 5 else reply

    plan = Grid(epsilons=ONE.epsilons, budgets=ONE.budgets, configurations=("opt",))
    people = patient_group("homa", patients=3)
    transcripts = held(plan, [people], tmp_path / "t.jsonl", Garbling(mute_first))
    (row,) = agent_rows(plan, [people], "garbling", transcripts)

    assert (row.sessions, row.missing, row.failed_sessions) == (3, 1, 1)
    assert row.wmape is not None


def test_the_map_estimate_uses_every_fetch_of_all(tmp_path: Path) -> None:
    plan = Grid(epsilons=ONE.epsilons, budgets=("3k+1",), configurations=("all",))
    people = patient_group("homa", patients=3)
    transcripts = held(plan, [people], tmp_path / "t.jsonl")
    (row,) = agent_rows(plan, [people], "scripted", transcripts)

    errors = []
    for root in people.roots:
        domain = people.template.roots[root].domain
        seen = np.array(
            [
                [domain.nearest(turn["read"][root]) for turn in r["turns"] if root in turn["read"]]
                for r in transcripts
            ]
        )
        assert seen.shape == (3, 4)
        noise = mechanism("exponential", Fraction("0.1"), domain.size)
        belief = prior("informed", people.template.roots[root]).log_density
        guessed = grid(domain)[map_estimates(noise, seen, belief)]
        truth = people.column(root)
        errors.append(100 * np.abs(guessed - truth).sum() / np.abs(truth).sum())
    assert row.map_wmape == pytest.approx(np.mean(errors), abs=1e-6)


def test_sessions_of_another_run_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    alone = rows_of(ONE, [patient_group()], path)
    held(ONE, [patient_group(seed=1)], path)

    assert agent_rows(ONE, [patient_group()], "scripted", Transcripts(path)) == alone


def row(template: str, at: dict[str, str], **figures: float) -> AgentRow:
    asked: Asked = "active" if template in PUBLISHED_ACTIVE else "declared"
    return AgentRow(
        cell=AgentCell(
            budget=at["budget"],  # type: ignore[arg-type]
            epsilon=Fraction(at["epsilon"]),
            template=template,
            asked=asked,
            mechanism="exponential",
            config=at["config"],  # type: ignore[arg-type]
        ),
        backend="scripted",
        **figures,  # type: ignore[arg-type]
        sessions=100,
        missing=0,
        failed_sessions=0,
        observations=1,
        roots=2,
        template_hash="",
        plan_hash="",
        cohort="",
        synthetic=False,
        seed=0,
    )


def published_rows() -> list[AgentRow]:
    """Rows whose means, and whose wrong classes, are the published ones."""
    wrong = {
        (at["template"].lower(), at["budget"], at["config"]): (value, se)
        for measure, at, value, se in published_agent()
        if measure == "misclassified"
    }
    made = []
    for measure, at, value, se in published_agent():
        for name in PAPER_TEMPLATES if measure == "wmape" else ():
            figures = {"wmape": value, "wmape_se": se * 8**0.5}
            if at["epsilon"] == "0.1":
                rate, error = wrong[name, at["budget"], at["config"]]
                figures |= {"misclassified": rate, "misclassified_se": error}
            made.append(row(name, at, **figures))
    return made


def test_the_published_tables_are_whole_and_match_themselves() -> None:
    compared = compare_agent(published_rows())

    assert matching(compared, "wmape") == (27, 27)
    assert matching(compared, "misclassified") == (72, 72)
    assert ordering(published_rows()).held == ordering(published_rows()).of == 9


def test_figures_far_from_the_published_ones_do_not_match() -> None:
    off = [replace(r, wmape=3 * (r.wmape or 0.0)) for r in published_rows()]

    assert matching(compare_agent(off), "wmape")[0] < 3


def test_aip_counts_as_published_in_one_mean_and_as_declared_in_the_other() -> None:
    rows = published_rows()
    more = [
        replace(r, cell=replace(r.cell, asked="declared"), wmape=(r.wmape or 0.0) + 80)
        for r in rows
        if r.cell.template == "aip"
    ]

    narrow = {mean.cell: mean.value for mean in means(rows, "published", "wmape")}
    wide = means([*rows, *more], "declared", "wmape")
    assert means(rows, "declared", "wmape") == []
    for mean in wide:
        assert mean.value == pytest.approx(narrow[mean.cell] + 10)


def test_where_targets_are_lost_the_mean_is_of_the_templates_that_all_configurations_have() -> None:
    rows = [r for r in published_rows() if r.cell.budget == "2k+1"]

    def lost(row: AgentRow) -> bool:
        return row.cell.template == "homa" and row.cell.config == "all"

    part = [replace(r, wmape=None, wmape_se=None) if lost(r) else r for r in rows]
    common = [sheet for sheet in agent_sheets(part) if "every configuration" in sheet.title]
    assert not [sheet for sheet in agent_sheets(rows) if "every configuration" in sheet.title]
    assert "two roots" in common[0].title
    columns = dict(zip(common[0].header[3:], range(3, 9), strict=False))
    for line in common[0].lines:
        assert line[1].endswith(", 7 of 8 templates")
        epsilon = Fraction(line[1].split()[2].rstrip(","))
        for config, place in columns.items():
            there = [
                r.wmape or 0.0
                for r in rows
                if (r.cell.mechanism, r.cell.epsilon, r.cell.config) == (line[0], epsilon, config)
                and r.cell.template != "homa"
            ]
            assert line[place].startswith(f"{sum(there) / 7:.1f} ±")


def test_every_table_says_which_backend_made_it() -> None:
    rows = published_rows()
    sheets = (*agent_sheets(rows), *agent_comparison_sheets(rows, compare_agent(rows)))

    assert len(sheets) >= 5
    assert all("Backend: scripted." in sheet.note for sheet in sheets)


def test_the_command_runs_resumes_and_compares(tmp_path: Path) -> None:
    arguments = ["--out", str(tmp_path), "--template", "homa", "--template", "aip"]
    arguments += ["--patients", "2", "--epsilon", "0.1", "--json"]
    first = CliRunner().invoke(rq4, arguments)
    again = CliRunner().invoke(rq4, arguments)

    assert first.exit_code == again.exit_code == 0, first.output
    found, later = json.loads(first.stdout), json.loads(again.stdout)
    assert found["held_now"] == 3 * 4 * 3 * 2  # two groups of AIP and one of HOMA
    assert later["held_now"] == 0
    assert found["compliance"] == later["compliance"]
    assert found["synthetic"]
    assert "SYNTHETIC" in (tmp_path / "rq4_report.html").read_text("utf-8")
    assert "Backend: scripted" in (tmp_path / "rq4_tables.md").read_text("utf-8")
    assert (tmp_path / "rq4.csv").read_text("utf-8").count("\n") == 37


def test_the_help_text_names_what_there_is() -> None:
    assert AGENT_CONFIGURATION_NAMES == AGENT_CONFIGURATIONS
    assert BACKEND_NAMES == ("scripted", "local", "openai")
    assert DECODING_NAMES == DECODINGS
    assert tuple(TURNS) == TURN_NAMES


@needs_cohort
def test_real_patients_agree_with_the_utility_study(tmp_path: Path) -> None:
    """Nine means within 4 SD of one draw: a false alarm about once in 1,700 seeds."""
    plan = Grid(epsilons=ONE.epsilons, configurations=("all", "roots", "opt"))
    groups = []
    for name in PAPER_TEMPLATES:
        template = load_template(name)
        kept = PUBLISHED_ACTIVE.get(name)
        template = only(template, kept) if kept else template
        cohort = read_cohort(FOLDER, template)
        asked: Asked = "active" if kept else "declared"
        groups.append(PatientGroup(template, cohort, asked=asked, seed=0, patients=5))

    rows = rows_of(plan, groups, tmp_path / "t.jsonl")

    found = [mean.from_rq1 for mean in means(rows, "published", "wmape")]
    assert len(found) == 9
    assert all(far is not None and abs(far) <= 4 for far in found)
    _, counts = list(compliance(rows))[-1]
    assert counts["exact"] == counts["observations"]
    assert counts["sessions"] == 8 * 9 * 5
