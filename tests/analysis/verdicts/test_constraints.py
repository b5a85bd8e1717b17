"""H2 and P2: constraints beside the same condition free, and beside retries, from rows made to support them or not."""

import pytest
from simulate_verdicts import LADDER, World, study

from support.analysed import tables_of
from support.synthetic_log import OPERATORS, make_row

CONSTRAINED = {name: LADDER[name] for name in ("C4", "C6")}


def findings_of(tmp_path, rows, **options):
    return {row["id"]: row for row in tables_of(tmp_path, rows, **options)["hypotheses"]}


@pytest.mark.slow
def test_restriction_steadies_answers(tmp_path):
    rows = []
    for k in range(20):
        for seed in (1, 2, 3):
            common = {"item": f"{k}", "decoding": "D1", "seed": seed, "score": float(seed == 1)}
            rows.append(make_row(condition="C4", answer=f"{seed if k % 2 else 1}", **common))
            rows.append(make_row(condition="C6", answer="1", **common))
    found = findings_of(tmp_path, rows)
    assert found["H2E"]["verdict"] == "supported"
    assert found["H2E"]["effect"] == pytest.approx(-0.5)
    # Every answer can be read on both sides: validity cannot rise.
    assert found["P2"]["verdict"] == "not tested"


@pytest.mark.parametrize("validity", [0.02, 0.5])
def test_validity_is_not_entropy(validity):
    """A constraint that changes no choice was contradicted at free validity 0.02 and supported at 0.5."""
    world = World("", "H2E", (), CONSTRAINED, items=60, replicates=10, readable={"C4": validity})
    said = [study(world, seed) for seed in range(12)]
    assert set(said) <= (
        {"not tested"} if validity == 0.02 else {"inconclusive", "supported", "contradicted"}
    )
    assert said.count("supported") + said.count("contradicted") <= 2
    world = World("", "P2", (), CONSTRAINED, items=60, replicates=10, readable={"C4": validity})
    assert [study(world, seed) for seed in range(12)].count("supported") <= 1


@pytest.mark.slow
def test_answers_that_never_vary_are_no_test(tmp_path):
    rows = [
        make_row(condition=condition, item=f"{k}", decoding="D1", seed=seed, answer="1", score=1.0)
        for condition in ("C4", "C6")
        for k in range(20)
        for seed in (1, 2, 3)
    ]
    found = findings_of(tmp_path, rows)["H2E"]
    assert found["verdict"] == "not tested"
    assert found["evidence"].startswith("every answer has the same value, 0, on both sides")


@pytest.mark.slow
def test_a_log_without_parsed_answers_tests_no_entropy(tmp_path):
    rows = [
        make_row(condition=condition, item=f"{k}", decoding="D1", seed=seed, answer=None, score=0.5)
        for condition in ("C4", "C6")
        for k in range(8)
        for seed in (1, 2)
    ]
    found = findings_of(tmp_path, rows)
    assert found["H2E"]["evidence"] == (
        "no item has two readable answers on both sides; the log does not say which answers could be read."
    )
    assert found["P2"]["verdict"] == "not tested"
    assert found["P2"]["evidence"].startswith("entropy not tested (no item")


@pytest.mark.slow
def test_few_items_are_inconclusive_where_the_exact_test_is(tmp_path):
    """Four items of eight all one way: the exact p-value is 0.125, whatever an interval says."""
    rows = []
    for k in range(8):
        for seed in (1, 2):
            common = {"item": f"{k}", "decoding": "D1", "seed": seed}
            rows.append(make_row(condition="C4", answer="1", **common))
            rows.append(make_row(condition="C6", answer=f"{seed if k < 4 else 1}", **common))
    found = findings_of(tmp_path, rows)["H2E"]
    assert (found["verdict"], found["p_value"]) == ("inconclusive", pytest.approx(0.125))


@pytest.mark.parametrize(
    ("sharpness", "verdict"),
    [({"C6": 0.9}, "supported"), ({}, "inconclusive"), ({"C4": 0.9}, "contradicted")],
)
def test_unsupported_content_against_retries_at_equal_tokens(sharpness, verdict):
    world = World(
        "",
        "H2",
        (),
        CONSTRAINED,
        items=150,
        replicates=5,
        sharpness=sharpness,
        readable={"C4": 0.6},
        retry=True,
    )
    said = [study(world, seed) for seed in range(4)]
    assert said.count(verdict) >= 3


@pytest.mark.slow
def test_h2_reads_support_from_the_rows(tmp_path):
    """C6 always invents the same name, retries another each time; answers without an invention count as one."""
    rows = []
    for k in range(20):
        for seed in (1, 2, 3):
            common = {"item": f"{k}", "decoding": "D1", "seed": seed, "score": 0.5}
            for condition, invented in (("C4", f"x{seed}"), ("C4R", f"x{seed}"), ("C6", "x")):
                wrong = (k + seed) % 2 == 0
                rows.append(
                    make_row(
                        condition=condition, operators=OPERATORS.get(condition, (*OPERATORS["C4"], "RETRY_ON_FAIL")),
                        answer=invented if wrong else f"right{seed}", metrics={"unsupported_rate": float(wrong)}, **common,
                    )
                )  # fmt: skip
    found = findings_of(tmp_path, rows)
    # Of an item's three answers one or two are inventions: C4 differs in 1 or 2/3 of pairs, C6 in 2/3.
    assert found["H2"]["effect"] == pytest.approx(-(1 / 3) / 2)
    assert found["H2"]["verdict"] == "supported"
    for row in rows:
        row.metrics.pop("unsupported_rate")
    (tmp_path / "bare").mkdir()
    told = findings_of(tmp_path / "bare", rows)["H2"]
    assert told["verdict"] == "not tested"
    assert "whose support was checked" in told["evidence"]


@pytest.mark.slow
def test_the_price_of_a_constraint(tmp_path):
    rows = []
    for k in range(30):
        for seed in (1, 2, 3, 4):
            common = {"item": f"{k}", "decoding": "D1", "seed": seed}
            readable = seed < 3 + k % 2
            answer = f"{seed % 2}" if readable else None
            rows.append(make_row(condition="C4", answer=answer, score=0.5 * readable, **common))
            rows.append(
                make_row(
                    condition="C6", answer="1", score=0.5, prompt_tokens=110, constraint_backend="x", **common
                )
            )
    found = {row["id"]: row for row in tables_of(tmp_path, rows)["hypotheses"]}["P2"]
    assert found["verdict"] == "supported"
    assert "tokens +10.0 [" in found["evidence"]
    assert "constraint failures (truncation counted) 0.0%" in found["evidence"]
