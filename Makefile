# Each target makes its own virtual environment and installs what it needs.
PYTHON ?= python3
DEMO := .venv
TEST := .venv-test
# Test processes: the models of the tests want a core each.
JOBS ?= 2
# Tests start hundreds of processes: without compiled modules each of them would compile the package anew.
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo test check quick lint style types clean local-stack

demo: $(DEMO)/.ready
	$(DEMO)/bin/pcsuite models pull qwen2.5-coder-0.5b
	$(DEMO)/bin/pcsuite ablate example

test: $(TEST)/.ready lint
	$(TEST)/bin/pcsuite models pull smollm2-135m
	OMP_NUM_THREADS=1 $(TEST)/bin/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder

# What a change is tried with: no model, no other process, nothing slow. Types are checked beside the tests.
check: style
	@$(MAKE) --no-print-directory --jobs 2 types quick

quick: $(TEST)/.ready
	OMP_NUM_THREADS=1 $(TEST)/bin/python -m pytest -q -n $(JOBS) --dist worksteal --hypothesis-profile quick \
	  -m 'not model and not subprocess and not slow and not realdata'

lint: style types

style: $(TEST)/.ready
	$(TEST)/bin/ruff format --check .
	$(TEST)/bin/ruff check .

types: $(TEST)/.ready
	$(TEST)/bin/mypy
	$(TEST)/bin/python scripts/house_measures.py --trace

$(DEMO)/.ready: pyproject.toml
	$(PYTHON) -m venv $(DEMO)
	$(DEMO)/bin/pip install --quiet --upgrade pip
	$(DEMO)/bin/pip install --quiet --editable '.[local,openai,eval,stats,view]'
	touch $@

$(TEST)/.ready: pyproject.toml
	$(PYTHON) -m venv $(TEST)
	$(TEST)/bin/pip install --quiet --upgrade pip
	$(TEST)/bin/pip install --quiet --editable '.[local,openai,eval,stats,view,embeddings,retrieval,hub,ray,dspy,dev]'
	$(MAKE) local-stack
	touch $@

# transformers, Outlines, Guidance and LMQL: about 2 GB and a few minutes. torch comes first, so that nothing else
# chooses its build. Its tests skip, and say so, where it is not installed (Python 3.10).
local-stack:
	@if $(TEST)/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then \
	  start=$$(date +%s); \
	  $(TEST)/bin/pip install --quiet torch==2.13.0 && \
	  $(TEST)/bin/pip install --quiet --editable '.[hf,outlines,guidance,lmql]' && \
	  echo "local stack installed in $$(( $$(date +%s) - start )) s"; \
	else \
	  echo "local stack left out: it needs Python 3.11 or later"; \
	fi

clean:
	rm -rf $(DEMO) $(TEST) .mypy_cache .pytest_cache .ruff_cache .hypothesis
