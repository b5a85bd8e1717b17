"""Variables of every style: what a column fills, what is left over, and what is none."""

import pytest

from pcsuite.errors import PromptError
from pcsuite.prompts.variables import Filling, VariableError, has_variables, variables


def filled(text, columns=("ticket",), literal=(), braces=""):
    return Filling.of([text], columns, literal, braces).fill(text).text


@pytest.mark.parametrize(
    "written", ["{{ ticket }}", "{{ticket}}", "{ticket}", "${ticket}", "$ticket", "<<ticket>>", "%(ticket)s"]
)
def test_every_style_is_filled_by_the_column_of_its_name(written):
    assert filled(f"Say {written}!").replace("{{ticket}}", "{{ ticket }}") == "Say {{ ticket }}!"
    with pytest.raises(VariableError) as caught:
        filled(f"one\nSay {written}!", columns=("tiket",))
    assert caught.value.lines_before == 1
    assert "no column for the variable" in str(caught.value)
    assert "did you mean 'tiket'" in str(caught.value)
    assert "--literal ticket" in str(caught.value)
    assert filled(f"Say {written}!", columns=("other",), literal=("ticket",)) == f"Say {written}!"


@pytest.mark.parametrize(
    "text",
    [
        'Answer with JSON: {"label": "a", "n": {"x": 1}}',
        "A set {a, b} or {0, 1}, {n: 3}, {}, { }",
        "Refunds above $5, $1.20, US$ 3 or $20k; 5$; costs 100% of it, 20%, 3% s",
        r"\frac{a}{b} and x_{i}^{n} and $x$ and \text{total}",
        "```python\nprint(f'{name}', $HOME, '%s' % x)\n```",
        "Use `{name}` or `$HOME` in code.",
        "a << b >> c and <<SYS>>be kind<</SYS>>",
        "regex \\d{3} and \\w{2,4}",
        '{{ 1 + 1 }} and {{"a": 1}}',
        "<role>x</role> and <b>bold</b>",
    ],
)
def test_json_prices_formulas_and_code_are_no_variables(text):
    assert not has_variables(text)
    assert filled(text + "\n{{ ticket }}") == text + "\n{{ ticket }}"


def test_a_variable_alone_on_its_line_is_one_in_code_too():
    assert filled("```\n{ticket}\n```") == "```\n{{ ticket }}\n```"
    with pytest.raises(PromptError, match=r"no column for the variable \{tikcet\}"):
        filled("```\n{tikcet}\n```\n{{ ticket }}")


def test_a_template_of_str_format_sends_its_doubled_braces_as_single_ones():
    assert filled('{ticket}: {{"a": {{"b": 1}}}}') == '{{ ticket }}: {"a": {"b": 1}}'
    # Not one: its braces are not doubled, so they stand.
    assert filled('{ticket}: {"a": {"b": 1}}') == '{{ ticket }}: {"a": {"b": 1}}'
    assert filled('{{ ticket }} {{"a": 1}}') == '{{ ticket }} {{"a": 1}}'
    with pytest.raises(PromptError, match=r"\{\{ plan \}\}"):
        filled("{ticket} {{ plan }}")
    assert filled("{ticket} {{ plan }}", literal=("plan",)) == "{{ ticket }} { plan }"
    assert filled("{{plan}} {ticket}", braces="format") == "{plan} {{ ticket }}"


def test_other_escapes_follow_the_style_that_is_filled():
    assert filled("$ticket costs $$5") == "{{ ticket }} costs $5"
    assert filled("$ticket costs $5 or $$6") == "{{ ticket }} costs $5 or $$6"
    assert filled("%(ticket)s is 100%%") == "{{ ticket }} is 100%"
    assert filled("%(ticket)s is 100% or 5%%") == "{{ ticket }} is 100% or 5%%"


def test_one_positional_is_the_input_and_several_are_refused():
    assert filled("Classify: %s") == "Classify: {{ input }}"
    with pytest.raises(PromptError, match=r"2 times %s: which column goes where"):
        filled("Classify %s for %s.")
    assert filled("{{ ticket }} %s and %s", literal=("%s",)) == "{{ ticket }} %s and %s"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{{#if vip}}x{{/if}} {{ ticket }}", "Mustache or Handlebars"),
        ("{ticket:>10}", "formats a value"),
        ("{ticket!r} and {ticket}", "formats a value"),
        ("{% if vip %}x{% endif %}", "no column for the variable vip of the template"),
        ("{% if ticket %}x", "the template cannot be read"),
        ("{{ order.id }}", r"no column for the variable \{\{ order.id \}\}"),
        ("${user.name}", r"\$\{user.name\}"),
        ("{{ tickt | upper }}", "no column for the variable tickt"),
    ],
)
def test_what_cannot_be_filled_is_told(text, problem):
    with pytest.raises(PromptError, match=problem):
        filled(text)


def test_a_literal_word_must_be_there():
    with pytest.raises(
        PromptError, match=r"--literal nmae: the prompt has no such variable \(did you mean 'name'"
    ):
        filled("{name} {ticket}", literal=("nmae",))


def test_names_with_dots_and_blanks_are_columns_where_the_table_has_them():
    assert filled("${user.name}", columns=("user.name",)) == "{{ user.name }}"
    assert filled("{Ticket text}", columns=("Ticket text",)) == "{{ Ticket text }}"
    assert [one.name for one in variables("{{ Ticket text }}")] == ["Ticket text"]


def test_jinja_is_kept_and_other_styles_in_it_become_jinja():
    ready = Filling.of(["x"], ["vip", "ticket"]).fill(
        "{% if vip %}Dear {ticket}{% endif %} {{ ticket | upper }}"
    )
    assert ready.jinja
    assert ready.text == "{% if vip %}Dear {{ ticket }}{% endif %} {{ ticket | upper }}"
    assert ready.names == {"vip", "ticket"}
    text = "{% if ticket %}{{ name }}{% endif %}"
    literal = Filling.of([text], ["ticket"], ["name"]).fill(text)
    assert literal.text == "{% if ticket %}{% raw %}{{ name }}{% endraw %}{% endif %}"
