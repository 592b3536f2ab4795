# Developer targets. PYTHON must have nanobind, numpy and the test tools (`pip install -e .[test]` gives them).
PYTHON ?= python3
JOBS ?= 2

.PHONY: native
native:  ## build the native module into src/headwater (development; wheels are built by scikit-build-core)
	cmake -S . -B build/dev -G Ninja -DCMAKE_BUILD_TYPE=Release -DPython_EXECUTABLE="$$(command -v $(PYTHON))"
	cmake --build build/dev -j $(JOBS)
	cp build/dev/_native*.so src/headwater/
