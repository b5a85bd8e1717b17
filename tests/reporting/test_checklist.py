"""The checklist of the protocol: what is there is ticked with its file, what is not says why."""

from __future__ import annotations

from pcsuite.reporting.checklist import protocol_checklist


def written(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_a_table_without_rows_and_a_figure_that_was_not_drawn_keep_no_promise(tmp_path):
    tables, plots = tmp_path / "tables" / "r", tmp_path / "plots" / "r"
    written(tables, "effects.csv", "task,delta\n")
    written(tables, "efficiency.csv", "task,cost\na,1\n")
    written(tables, "unsupported.csv", "task,contradiction_rate\na,\nb,0.25\n")
    written(tables, "hypotheses.csv", "id,verdict\nH1,not tested\n")
    written(tables, "summary_by_condition.csv", "task,condition\na,C0\n")
    written(plots, "pareto_accuracy_tokens__a__grid.png", "")
    lines = [str(promise) for promise in protocol_checklist(tmp_path, "r", {"helm": "HELM is not installed"})]
    assert (
        "[ ] table of effects against the control, paired, corrected, with effect sizes: one condition only"
        in (line.removesuffix(" (effects.csv)") for line in lines)
    )
    assert f"[x] table of tokens and cost per right answer: {tables / 'efficiency.csv'}" in lines
    assert f"[x] contradiction rate: 1 rows of {tables / 'unsupported.csv'}" in lines
    assert f"[x] figure of score against tokens: 1 × {plots / 'pareto_accuracy_tokens__'}…png" in lines
    assert "[ ] figure of effects by model size: models of at least two sizes are needed" in lines
    assert "[x] verdict H1: not tested" in lines
    assert "[ ] helm: HELM is not installed" in lines
    assert "[ ] compiled prompt (C8): nothing is compiled: pcsuite optimize --config PROFILE" in lines
