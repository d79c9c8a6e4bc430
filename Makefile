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

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL: # all targets share one environment
.PHONY: help setup demo test lint docs bench clean
.PRECIOUS: $(VENV)/.installed-%

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-6s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.installed-library ## make .venv with the library and all its options
	@echo "ready: $(BIN)/python"

demo: $(VENV)/.installed-demo ## run the demonstration
	$(BIN)/python examples/demo.py
	@echo "next, real people: $(BIN)/crowdmetric import travel --out travel && $(BIN)/crowdmetric fit travel/items.csv travel/comparisons.csv --out model"

# A process a core, and one thread of BLAS each: more would wait for one another.
test: $(VENV)/.installed-test ## run the tests
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist loadfile

lint: $(VENV)/.installed-lint ## check style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.installed-docs ## build the documentation into site/, warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(VENV)/.installed-bench ## run the benchmarks
	$(BIN)/python -m benchmarks

clean: ## remove everything that can be made again
	rm -rf $(VENV) build dist site demo-output bench-output .pytest_cache .mypy_cache .ruff_cache .hypothesis
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
