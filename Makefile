# Each target makes its own virtual environment and installs what it needs.
PYTHON ?= python3
DEMO := .venv
TEST := .venv-test

.PHONY: demo test lint clean

demo: $(DEMO)/.ready
	$(DEMO)/bin/pcsuite models pull smollm2-135m
	$(DEMO)/bin/pcsuite run --config quickstart
	$(DEMO)/bin/pcsuite report --config quickstart

test: $(TEST)/.ready lint
	$(TEST)/bin/pcsuite models pull smollm2-135m
	$(TEST)/bin/python -m pytest

lint: $(TEST)/.ready
	$(TEST)/bin/ruff format --check .
	$(TEST)/bin/ruff check .
	$(TEST)/bin/mypy

$(DEMO)/.ready: pyproject.toml
	$(PYTHON) -m venv $(DEMO)
	$(DEMO)/bin/pip install --quiet --upgrade pip
	$(DEMO)/bin/pip install --quiet --editable '.[local,openai,eval,stats]'
	touch $@

$(TEST)/.ready: pyproject.toml
	$(PYTHON) -m venv $(TEST)
	$(TEST)/bin/pip install --quiet --upgrade pip
	$(TEST)/bin/pip install --quiet --editable '.[local,openai,eval,stats,retrieval,hub,dev]'
	touch $@

clean:
	rm -rf $(DEMO) $(TEST) .mypy_cache .pytest_cache .ruff_cache .hypothesis
