"""Second spellings, one by one; what people write with them is in ``tests/specification``."""

import pytest

from pcsuite.config.spellings import (
    by_regime,
    dataset_name,
    file_stems,
    hashed_regime_id,
    helm_scenarios,
    normalise_model,
    normalise_operator,
    normalise_task,
)


def test_a_regime_is_hashed_by_the_name_it_always_had():
    assert [hashed_regime_id(name) for name in ("D0", "D1", "warm")] == ["d0_greedy", "d1_sampled", "warm"]


def test_a_mapping_by_regime_names_each_once():
    assert by_regime({"d0_greedy": 1, "D1": 2, "warm": 3}) == {"D0": 1, "D1": 2, "warm": 3}
    with pytest.raises(ValueError, match="are one regime"):
        by_regime({"D1": 1, "d1_sampled": 2})
    assert by_regime("no mapping") == "no mapping"


def test_datasets_keep_their_own_name_first():
    assert dataset_name("natural_questions") == "nq_open"
    assert dataset_name("tickets") == "tickets"
    assert file_stems("commonsense_qa", "validation")[0] == "commonsense_qa_validation"
    assert "csqa_dev" in file_stems("commonsense_qa", "validation")
    assert file_stems("tickets", "test") == ["tickets_test"]


def test_a_task_in_the_suites_own_words_stays_as_it_is():
    own = {
        "kind": "structured",
        "evaluator": "ner",
        "split": "test",
        "schema_ref": "a.json",
        "retrieval": True,
    }
    assert normalise_task(own) == own


@pytest.mark.parametrize(
    ("split", "found"),
    [
        ({"train": "tr", "dev": "de", "test": "te"}, {"split": "te", "dev_split": "de", "train_split": "tr"}),
        ({"train": "tr", "validation": "va"}, {"split": "va", "train_split": "tr"}),
        ({"test": "te"}, {"split": "te"}),
    ],
)
def test_a_split_of_three_names(split, found):
    assert normalise_task({"kind": "structured", "split": split}) == {"kind": "structured"} | found


@pytest.mark.parametrize("split", [{"train": "a"}, {"test": "a", "holdout": "b"}, {}])
def test_a_split_that_names_nothing_to_score_is_refused(split):
    with pytest.raises(ValueError, match="'split' names train, dev and test"):
        normalise_task({"split": split})


def test_labels_go_where_the_evaluator_has_them():
    labels = ["a", "b"]
    assert normalise_task({"kind": "classification", "labels": labels})["evaluator_options"] == {
        "labels": labels
    }
    assert normalise_task({"evaluator": "ner", "labels": labels})["evaluator_options"] == {"types": labels}
    assert "evaluator_options" not in normalise_task({"kind": "mcq", "labels": labels})
    with pytest.raises(ValueError, match="disagree"):
        normalise_task({"kind": "classification", "labels": labels, "evaluator_options": {"labels": ["c"]}})


def test_a_models_keys_are_its_providers():
    assert normalise_model({"provider": "openai", "model_name_or_path": "m"}) == {
        "provider": "openai",
        "model": "m",
    }
    assert normalise_model({"provider": "mine", "device": "x"}) == {"provider": "mine", "device": "x"}
    with pytest.raises(ValueError, match="are one key"):
        normalise_model({"provider": "hf", "device": "cuda", "device_map": "cpu"})


def test_a_constraints_kind_is_in_its_name_or_its_engine():
    def kind(name, **more):
        return normalise_operator(name, {"type": "constraint", **more}).get("kind")

    assert kind("JSON_CONSTRAIN") == "json_schema"
    assert kind("MINE", engine="guidance_cfg") == "cfg"
    assert kind("MINE", engine="auto") is None
    assert kind("CFG_CONSTRAIN", kind="regex") == "regex"
    assert normalise_operator("JSON", {"type": "block"}) == {"type": "block"}


def test_scenarios_by_helms_names():
    assert helm_scenarios(["truthfulqa", "gsm8k", "boolq"]) == ["truthful_qa", "gsm", "boolq"]
    assert len(helm_scenarios(["mmlu"])) == 5
    assert helm_scenarios("text") == "text"
