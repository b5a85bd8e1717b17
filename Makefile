# Each target makes its own virtual environment and installs what it needs.
PYTHON ?= python3
DEMO := .venv
TEST := .venv-test
DOCS := .venv-docs
PEERS := .venv-peers
# What `make check` and `make matrix` leave to `make test`.
QUICK := not model and not subprocess and not slow and not realdata
# The versions of Python that `make matrix` tries, where they are on this machine, and what it tries.
VERSIONS ?= 3.10 3.11 3.12 3.13
MATRIX_TESTS ?= tests
# Test processes: the models of the tests want a core each.
JOBS ?= 2
# Tests start hundreds of processes: without compiled modules each of them would compile the package anew.
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo test check quick lint style types coverage matrix docs clean local-stack lock audit sbom newest

demo: $(DEMO)/.ready
	$(DEMO)/bin/pcsuite models pull qwen2.5-coder-0.5b
	$(DEMO)/bin/pcsuite ablate example

test: $(TEST)/.ready $(PEERS)/.ready lint
	$(TEST)/bin/pcsuite models pull smollm2-135m
	PCS_INSPECT_PYTHON=$${PCS_INSPECT_PYTHON:-$(CURDIR)/$(PEERS)/bin/python} \
	PCS_LANGCHAIN_PYTHON=$${PCS_LANGCHAIN_PYTHON:-$(CURDIR)/$(PEERS)/bin/python} \
	OMP_NUM_THREADS=1 $(TEST)/bin/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder

# What a change is tried with: no model, no other process, nothing slow. Types are checked beside the tests.
check: style
	@$(MAKE) --no-print-directory --jobs 2 types quick

quick: $(TEST)/.ready
	OMP_NUM_THREADS=1 $(TEST)/bin/python -m pytest -q -n $(JOBS) --dist worksteal --hypothesis-profile quick -m '$(QUICK)'

lint: style types

style: $(TEST)/.ready
	$(TEST)/bin/ruff format --check .
	$(TEST)/bin/ruff check .

types: $(TEST)/.ready
	$(TEST)/bin/mypy
	$(TEST)/bin/python scripts/house_measures.py --trace

# The quick tests again, with the share of lines that they run, by package and in all.
coverage: $(TEST)/.ready
	OMP_NUM_THREADS=1 $(TEST)/bin/python -m pytest -q -n $(JOBS) --dist worksteal --hypothesis-profile quick -m '$(QUICK)' \
	  --cov=pcsuite --cov-report=
	$(TEST)/bin/python scripts/coverage_by_package.py

# The quick tests under each Python at hand, each in an environment of its own.
matrix:
	JOBS=$(JOBS) bash scripts/python_matrix.sh "$(VERSIONS)" '$(QUICK)' $(MATRIX_TESTS)

# The site of docs/ and the docstrings, into build/site. Commands and examples in it are run by the tests.
docs: $(DOCS)/.ready
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/python -m mkdocs build --strict
	@echo "build/site/index.html"

$(DOCS)/.ready: pyproject.toml
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/pip install --quiet --upgrade pip
	$(DOCS)/bin/pip install --quiet --editable '.[docs]'
	touch $@

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

# Tools that answer in a model's place or whose logs are read, in an environment of their own: half a minute. The
# versions are those that the tests ran with; `make newest` does not look at them.
$(PEERS)/.ready: Makefile
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install --quiet --upgrade pip
	$(PEERS)/bin/pip install --quiet inspect_ai==0.3.285 openai==3.51.0 langchain-core==1.7.2
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

# constraints.txt and requirements.lock, from the environments that the tests and the documentation have.
lock: $(TEST)/.ready $(DOCS)/.ready
	$(TEST)/bin/python scripts/lock.py $(TEST)/bin/python $(DOCS)/bin/python

# Published vulnerabilities of the locked versions; where no database can be reached it says so.
audit:
	$(PYTHON) scripts/audit.py

# What a release is made of, for those who ask (CycloneDX).
sbom:
	mkdir -p build
	$(PYTHON) scripts/sbom.py --out build/sbom.cdx.json

# The quick tests with the newest version of everything, bounds and locks aside.
newest:
	$(PYTHON) -m venv .venv-newest
	.venv-newest/bin/pip install --quiet --upgrade pip
	.venv-newest/bin/python scripts/newest.py
	OMP_NUM_THREADS=1 .venv-newest/bin/python -m pytest -q -n $(JOBS) --dist worksteal --hypothesis-profile quick -m '$(QUICK)'

clean:
	rm -rf $(DEMO) $(TEST) $(DOCS) $(PEERS) .venv-newest .venv-audit .venv-3.* build/site .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis
