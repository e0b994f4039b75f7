# make chat   set up and chat with the embedded pair
# make test   set up and run every test
# make lint   set up and check style, types, imports and formatting
# make bench  measure drafting on the embedded pair
# make fuzz   look for a minute (FUZZ_SECONDS) for files that the header check trips over

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The one pin of llama-cpp-python, which carries llama.cpp.
LLAMA := $(shell sed -n 's/.*"\(llama-cpp-python==[^"]*\)".*/\1/p' pyproject.toml | head -n 1)
NATIVE := $(wildcard native/*.cpp native/*.h native/kernels/* native/CMakeLists.txt)
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: chat test lint format bench fuzz clean

chat: $(VENV)/.runtime
	$(BIN)/gemmachat run tiny

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/clang-format --dry-run --Werror --style=file:native/.clang-format $(filter-out %.txt,$(NATIVE)) tests/*.cpp

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/clang-format -i --style=file:native/.clang-format $(filter-out %.txt,$(NATIVE)) tests/*.cpp

bench: $(VENV)/.runtime
	$(BIN)/python benchmarks/drafting.py

FUZZ_SECONDS ?= 60
FUZZ_CORPUS ?= .cache/fuzz-header

fuzz: $(VENV)/.dev
	$(PIP) install --quiet --no-build-isolation --editable ".[fuzz]"
	$(BIN)/python tests/fuzz_header.py --seed $(FUZZ_CORPUS)
	$(BIN)/python tests/fuzz_header.py -max_total_time=$(FUZZ_SECONDS) -timeout=5 -rss_limit_mb=1024 \
		-artifact_prefix=$(FUZZ_CORPUS)- $(FUZZ_CORPUS)

clean:
	rm -rf $(VENV) build dist

$(VENV)/.llama: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "gemmachat needs Python 3.11 or newer: make PYTHON=python3.12"; exit 1; }
	test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	@echo "Installing llama.cpp; the first time it is built: about 5 minutes on two cores."
	$(PIP) install --quiet "scikit-build-core>=0.11" "cmake>=3.21" "ninja>=1.11" "$(LLAMA)"
	touch $@

$(VENV)/.runtime: $(VENV)/.llama $(NATIVE)
	$(PIP) install --quiet --no-build-isolation --editable .
	touch $@

$(VENV)/.dev: $(VENV)/.runtime
	$(PIP) install --quiet --no-build-isolation --editable ".[dev]"
	touch $@
