from pcsuite.ablation import preview
from pcsuite.ablation.forecast_picture import print_preview
from support.ablating import printed, request_in


def test_show_names_blocks_arms_rows_tokens_cost_and_reach(tmp_path):
    text = printed(print_preview, preview(request_in(tmp_path, items=60, margin=0.02)))
    for words in (
        "split at its headings", "holds the input", "factorial: all 16 subsets", "-tone", "again", "then shams",
        "rows: 1,020 (17 arms × 60 items)", "tokens and $0.00", "smallest effect found", "of studies",
        "fewer than", "stand at the beginning",
    ):  # fmt: skip
        assert words in text, words
    assert not (tmp_path / "outputs").exists()
