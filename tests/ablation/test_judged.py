"""An ablation whose answers are judged: it runs, says that nobody checked the judge, and goes by labels once there are."""

import pytest

from pcsuite.ablation.ablate import ablate
from pcsuite.ablation.request import AblationRequest
from pcsuite.ablation.sentences import notices
from pcsuite.cli import main
from support.judged import fill_in, write_judged_profile

PROMPT = """# Role
You are a patient adviser.

# Rules
Say what to do, in one sentence.

# Question
{{ input }}
"""


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["pass_fail", "pairwise"])
def test_a_judged_task_is_ablated(tmp_path, scale):
    config = write_judged_profile(
        tmp_path,
        items=30,
        judge={"scale": scale},
        judging={"sensitivity": {"full": 1.0, "default": 0.6}, "specificity": {"full": 0.2, "default": 1.0}},
    )
    prompt = tmp_path / "advice.md"
    prompt.write_text(PROMPT)
    request = AblationRequest(
        prompt, "advice", model="sim", config=str(config), output_dir=str(tmp_path / "out"), trim=False
    )
    result = ablate(request, quiet=True)
    assert result.items == 30
    assert any("judge not validated" in notice for notice in notices(result))
    profile = str(result.study.folder / "profile.yaml")
    assert main(["judge", "sample", "--config", profile, "--items", "20"]) == 0
    table = result.log.with_suffix(".to_label.csv")
    fill_in(table, scale)
    assert main(["judge", "check", "--config", profile, "--labels", str(table), "--again", "2"]) == 0
    again = ablate(request, quiet=True)
    assert again.asked == 0
    assert not any("judge not validated" in notice for notice in notices(again))
    for verdict in again.verdicts:
        assert "prediction-powered" in verdict.effect.method
