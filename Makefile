# Every command of the project; `make` alone lists them. Versions come from constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check install --constraint constraints.txt

# What each stamp installs beside the library.
EXTRAS_library := all
EXTRAS_demo := plots,cli
EXTRAS_test := test
# The optional libraries carry types: with all of them, mypy says the same whatever was installed before.
EXTRAS_lint := all,lint
EXTRAS_docs := docs
EXTRAS_bench := bench
EXTRAS_release := release,lint

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL: # all targets share one environment
.PHONY: help setup demo test test-oldest test-newest lint docs console bench paper release-check clean
.PRECIOUS: $(VENV)/.installed-%

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.installed-library ## make .venv with the library and all its options
	@echo "ready: $(BIN)/python"

demo: $(VENV)/.installed-demo ## run the demonstration
	$(BIN)/python examples/demo.py
	@echo "next, real people: $(BIN)/crowdmetric import travel --out travel && $(BIN)/crowdmetric fit travel/items.csv travel/comparisons.csv --out model"

# A process a core, and one thread of BLAS each: more would wait for one another.
test: $(VENV)/.installed-test ## run the tests
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder

# The oldest versions that pyproject.toml allows, and the newest that exist: each in an environment of its own.
test-oldest: $(VENV)/.installed-release ## run the tests with the oldest supported versions
	$(call TEST_WITH,lowest-direct,.venv-oldest)

test-newest: $(VENV)/.installed-release ## run the tests with the newest versions
	$(call TEST_WITH,highest,.venv-newest)

define TEST_WITH
	$(BIN)/uv venv --quiet --clear --python $(PYTHON) $(2)
	$(BIN)/uv pip install --quiet --python $(2) --resolution $(1) --editable '.[test]'
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(2)/bin/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder
endef

lint: $(VENV)/.installed-lint ## check style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.installed-docs ## build the documentation into site/ and run its examples; warnings are errors
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m sphinx --fail-on-warning --quiet -d build/doctrees docs site

paper: $(VENV)/.installed-demo ## draw the figures of the paper from the measured tables
	MPLBACKEND=Agg $(BIN)/python paper/figures.py

release-check: $(VENV)/.installed-release ## build, install clean, run every command, compare bytes: before a release
	$(BIN)/python release/check.py
	$(BIN)/zizmor --offline --no-progress --persona pedantic .github

console: $(VENV)/.installed-library ## write anew what the console blocks of README and docs show
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python docs/console_blocks.py

bench: $(VENV)/.installed-bench ## run the benchmarks
	$(BIN)/python -m benchmarks

clean: ## remove everything that can be made again
	rm -rf $(VENV) .venv-oldest .venv-newest build dist site demo-output bench-output .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf docs/gallery docs/tutorials docs/reference/api docs/reference/used-in docs/sg_execution_times.rst
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The build backend is installed first, from the same constraints, so that no build downloads its own.
$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.version_info < (3, 11) and sys.exit("crowdmetric needs Python 3.11 or newer, but $(PYTHON) is %d.%d; name a newer one with make PYTHON=..." % sys.version_info[:2])'
	$(PYTHON) -m venv --clear $(VENV)
	$(PIP) hatchling editables
	@touch $@

$(VENV)/.installed-%: $(VENV)/.made pyproject.toml constraints.txt
	$(PIP) --no-build-isolation --editable '.[$(EXTRAS_$*)]'
	@touch $@
