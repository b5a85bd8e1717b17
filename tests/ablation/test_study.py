from dataclasses import replace

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pcsuite.ablation.study import as_yaml, prepare
from pcsuite.config.load import load_suite
from pcsuite.config.operator_definitions import OperatorsFile
from pcsuite.config.yaml_source import YamlSource
from pcsuite.errors import ConfigError, DataError, PcsuiteError, PromptError
from pcsuite.runners.plan import build_plan
from support.ablating import request_in


def test_the_profile_that_is_written_sends_the_prompt_as_it_stands_in_the_file(tmp_path):
    study = prepare(request_in(tmp_path))
    plan = build_plan(study.write(study.design.arms))
    cells = {cell.condition.id: cell for cell in plan.cells}
    item = plan.tasks["tickets"].items[0]
    original = study.request.prompt.read_bytes().decode()
    assert cells["full"].tree(item).assemble() == original.replace("{{ text }}", item.columns["text"])
    without = original.replace("# Tone\nBe kind to everyone.\n\n", "").replace(
        "{{ text }}", item.columns["text"]
    )
    assert cells["-tone"].tree(item).assemble() == without
    assert item.truth == {"label": item.columns["text"].split()[-1]}
    assert cells["~tone"].operators == ("role", "rules", "SHAM_tone", "noise", "ticket")


@pytest.mark.parametrize("until", [None, "decided"])
def test_arms_that_are_added_make_the_suite_that_loading_the_profile_anew_makes(tmp_path, until):
    study = prepare(request_in(tmp_path, until=until))
    first, arms = study.write(study.design.first), study.design.arms
    extended = study.extend(first, arms)
    loaded = load_suite(tmp_path / "outputs/ablations/prompt/profile.yaml")
    assert extended.config_hash == loaded.config_hash != first.config_hash
    assert extended.settings == loaded.settings
    assert (extended.profile, extended.conditions) == (loaded.profile, loaded.conditions)
    assert {key: (source.path.name, source.data) for key, source in extended.sources.items()} == {
        key: (source.path.name, source.data) for key, source in loaded.sources.items()
    }
    written = {path.name: path.read_bytes() for path in study.folder.glob("*.yaml")}
    assert study.write(arms).config_hash == loaded.config_hash
    assert {path.name: path.read_bytes() for path in study.folder.glob("*.yaml")} == written


@pytest.mark.slow
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip))
@example("0\x85\u2028\r\n\x1e🎉")
@settings(max_examples=60)
def test_any_text_comes_back_from_the_operators_file_as_it_was(text):
    dumped = as_yaml({"version": "1.0", "operators": {"a": {"type": "verbatim", "template": text}}})
    source = YamlSource(None, dumped, yaml.safe_load(dumped))
    assert source.parse(OperatorsFile).operators["a"].template == text


def test_calls_go_out_in_an_order_of_shared_beginnings(tmp_path):
    study = prepare(request_in(tmp_path))
    plan = build_plan(study.write(study.design.arms))
    texts = [cell.applied.prompt for cell in plan.cells]
    assert sorted(texts) == texts


def test_a_prompt_with_columns_in_several_places(tmp_path):
    request = request_in(
        tmp_path, effects={}, prompt="From {{ who }}\n\nBe brief.\n\nSay: {{ text }}\n\nAnswer:\n"
    )
    lines = ["who,text,queue", *(f"p{i},t{i},{'ab'[i % 2]}" for i in range(60))]
    (tmp_path / "tickets.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    study = prepare(request)
    plan = build_plan(study.write(study.design.arms))
    item = next(item for item in plan.tasks["tickets"].items if item.columns["who"] == "p7")
    full = next(cell for cell in plan.cells if cell.condition.id == "full")
    assert full.tree(item).assemble() == "From p7\n\nBe brief.\n\nSay: t7\n\nAnswer:\n"
    assert study.free == ("be_brief", "answer")


def test_the_design_fits_the_budget(tmp_path):
    rich = prepare(request_in(tmp_path))
    poor = prepare(request_in(tmp_path, budget_tokens=110_000))
    assert (rich.design.name, poor.design.name) == ("factorial", "leave-one-out")
    assert "budget of" in poor.design.why


@pytest.mark.parametrize(
    ("model", "provider", "options"),
    [
        ("openai/some-model", "openai", {"model": "some-model", "base_url": "https://api.openai.com/v1"}),
        ("smollm2-135m", "llamacpp", {"weights": "smollm2-135m-instruct-q4_1"}),
        ("hf/org/name", "hf", {"path": "org/name"}),
    ],
)
def test_models_by_id_and_by_provider(tmp_path, model, provider, options):
    study = prepare(request_in(tmp_path, model=model, effects={}))
    assert study.model.provider == provider
    assert options.items() <= study.model.provider_options().items()


def test_keys_of_the_models_entry_can_be_given(tmp_path):
    given = {"api_key_env": "MY_KEY", "price_in": 2.5, "price_out": 10}
    address = "http://127.0.0.1:9/v1"
    request = request_in(
        tmp_path, model="openai/some-model", base_url=address, effects={}, model_options=given
    )
    model = prepare(request).model
    assert (model.price_in, model.price_out) == (2.5, 10)
    told = model.provider_options()
    assert (told["base_url"], told["api_key_env"]) == (address, "MY_KEY")
    without = prepare(replace(request, model_options={})).model.provider_options()
    assert without.get("api_key_env") is None, "the key of another host goes nowhere"


WRONG = {
    "no placeholder": ({"prompt": "# A\na\n\n# B\nb\n"}, PromptError, "no placeholder.*--append-input"),
    "an unknown placeholder": (
        {"prompt": "# A\na\n\n# B\n{{ txt }}\n"},
        PromptError,
        r"line 5: no column.*txt.*text",
    ),
    "the answer in the prompt": (
        {"prompt": "a\n\nb\n\n{{ text }} {{ queue }}\n"},
        PromptError,
        "line 5.*right answer",
    ),
    "an empty block": (
        {"prompt": "<!-- block: x -->\n<!-- block: y -->\n{{ text }}\n"},
        PromptError,
        "'x' is empty",
    ),
    "one block": ({"prompt": "a\n\n{{ text }}\n"}, ConfigError, "one block that could be left out"),
    "no block": ({"prompt": "{{ text }}\n"}, ConfigError, "no blocks"),
    "a table too small": ({"items": 12}, DataError, "12 items are too few for 4 blocks.*give 16 or more"),
    "a limit too small": ({"limit": 10}, DataError, r"10 items are too few.*\(--limit 16 or more\)"),
    "an unknown column": ({"answer": "que"}, DataError, r"no column 'que' \(--answer\).*queue"),
    "an unknown input": ({"inputs": ("txt",)}, DataError, r"no column 'txt' \(--input\).*text"),
    "an unknown kind": ({"kind": "label"}, DataError, "unknown kind of task 'label'"),
    "an unknown scorer": ({"scorer": "exactly"}, ConfigError, "no scorer 'exactly'"),
    "no table": ({"data": "nowhere.csv"}, DataError, "neither a file nor a task"),
    "an unknown model": ({"model": "smollm", "effects": {}}, ConfigError, "no model 'smollm'.*smollm2-135m"),
    "an unknown block kept": ({"keep": ("tome",)}, PromptError, "no block 'tome'.*tone"),
    "an unknown block split": ({"into": ("tome",)}, PromptError, "no block 'tome'"),
    "a block that is one": ({"into": ("tone",)}, PromptError, "'tone' cannot be split further"),
    "an effect of nothing": ({"effects": {"tome": 1.0}}, ConfigError, "--effect: no block 'tome'"),
    "effects of a real model": ({"model": "smollm2-135m"}, ConfigError, "is not simulated"),
    "a margin of nothing": ({"margin": 0.0}, ConfigError, "--margin 0"),
    "an unknown regime": ({"regime": "d2"}, ConfigError, "unknown regime 'd2'"),
    "two designs": ({"until": "decided", "design": "factorial"}, ConfigError, "one block at a time"),
    "a name that is a path": ({"name": "a/b"}, ConfigError, "^--name a/b: use letters, digits"),
    "an address of a model that runs here": (
        {"model": "smollm2-135m", "base_url": "http://127.0.0.1:9/v1"},
        ConfigError,
        "--base-url: model 'smollm2-135m' .provider llamacpp. is not asked at an address",
    ),
    "no seeds": ({"seeds": 0}, ConfigError, "--seeds 0"),
    "a prompt longer than the context": (
        {
            "prompt": "# A\n" + "many words " * 4000 + "\n\n# B\nb\n\n{{ text }}\n\n# C\nc\n",
            "model": "smollm2-135m",
        },
        PromptError,
        "context of smollm2-135m holds 8,192",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_bad_input_is_told_in_one_line_and_nothing_is_written(tmp_path, case):
    changes, kind, words = WRONG[case]
    request = (
        request_in(tmp_path, **changes) if "data" not in changes else replace(request_in(tmp_path), **changes)
    )
    if request.model != "simulated" and case != "effects of a real model":
        request = replace(request, effects={})
    with pytest.raises(kind, match=words) as caught:
        prepare(request)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, PcsuiteError)
    assert not (tmp_path / "outputs").exists()


def test_the_fingerprint_is_of_prompt_table_and_model(tmp_path):
    request = request_in(tmp_path)
    first = prepare(request).fingerprint()
    assert prepare(replace(request, margin=0.3, design="leave-one-out", limit=40)).fingerprint() == first
    assert prepare(replace(request, effects={})).fingerprint() != first
    assert prepare(replace(request, split="paragraphs", effects={})).fingerprint() != first


def test_blocks_of_jinja_are_rendered_for_each_item_and_their_shams_keep_the_controls(tmp_path):
    prompt = (
        "Be brief.\n\n{% if plan == 'gold' %}Be kind.\n\nBe quick.{% endif %}\n\nSay: {{ text | upper }}\n"
    )
    request = request_in(tmp_path, effects={}, prompt=prompt, inputs=("text",))
    lines = ["text,plan,queue", *(f"t{i},{('gold', 'basic')[i % 2]},{'ab'[i % 3 > 0]}" for i in range(60))]
    (tmp_path / "tickets.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    study = prepare(request)
    assert study.free == ("be_brief", "if_plan_gold")
    plan = build_plan(study.write(study.design.arms))
    cells = {cell.condition.id: cell for cell in plan.cells}
    items = {item.columns["text"]: item for item in plan.tasks["tickets"].items}
    assert cells["full"].tree(items["t0"]).assemble() == "Be brief.\n\nBe kind.\n\nBe quick.\n\nSay: T0\n"
    assert cells["full"].tree(items["t1"]).assemble() == "Be brief.\n\n\n\nSay: T1\n"
    sham = cells["~if_plan_gold"].tree(items["t0"]).assemble()
    assert (len(sham), "kind" in sham) == (len("Be brief.\n\nBe kind.\n\nBe quick.\n\nSay: T0\n"), False)


def test_a_column_that_never_changes_is_no_part_of_the_item(tmp_path):
    request = request_in(tmp_path, effects={}, prompt="For {who}.\n\nBe brief.\n\nSay: {text}\n")
    lines = ["who,text,queue", *(f"us,t{i},{'ab'[i % 2]}" for i in range(60))]
    (tmp_path / "tickets.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert prepare(request).free == ("for_who", "be_brief")


def test_the_rest_of_the_row_is_the_input_where_the_prompt_places_some_columns_and_the_input(tmp_path):
    request = request_in(
        tmp_path, effects={}, prompt="For {who}.\n\nBe brief.\n\nBe kind.\n\nSay: {input}\n", answer="queue"
    )
    lines = ["who,text,queue", *(f"p{i},t{i},{'ab'[i % 2]}" for i in range(60))]
    (tmp_path / "tickets.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    study = prepare(request)
    item = next(item for item in study.items if item.columns["who"] == "p7")
    assert item.input_text == "t7"


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{% include 'x' %}", "block 'include_x', item 'tickets-000001': the prompt's template fails"),
        (
            "{% for a in plan.parts %}x{% endfor %}",
            "the prompt's template fails on an item: .* has no attribute 'parts'",
        ),
    ],
)
def test_a_template_that_fails_on_an_item_is_told_before_anything_is_asked(tmp_path, template, problem):
    request = request_in(
        tmp_path, effects={}, prompt=f"Be brief.\n\n{template}\n\nBe kind.\n\nSay: {{{{ text }}}}\n"
    )
    lines = ["text,plan,queue", *(f"t{i},gold,{'ab'[i % 2]}" for i in range(60))]
    (tmp_path / "tickets.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(PromptError, match=problem):
        prepare(request)
