# The same commands that CI runs. `make setup` once, then `make check`.
PYTHON ?= python3
BIN := $(CURDIR)/.venv/bin

.PHONY: setup format check lint types layers test slow box lab nightly install

setup: .venv/.done

.venv/.done: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q -e '.[dev]'
	touch $@

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: setup
	$(BIN)/mypy

layers: setup
	$(BIN)/lint-imports

test: setup
	$(BIN)/pytest -q

slow: setup
	$(BIN)/pytest -q -m slow

# Real bytes on shaped links: what else runs on the machine is measured, too, so that this runs alone.
box: setup
	$(BIN)/pytest -q -n0 -m lab tests/lab/box

# They mostly wait. Files are kept whole: racks are shared in one.
lab: setup
	$(BIN)/pytest -q -n3 --dist=loadfile --no-loadscope-reorder -m lab --ignore=tests/lab/box

# Soft-RoCE machines in QEMU: apt-get install qemu-system-x86 mmdebstrap cpio e2fsprogs; 5 minutes for the image, once.
nightly: setup
	$(BIN)/pytest -q -n0 -m nightly

install: setup
	$(BIN)/pytest -q -n0 -m install

check: lint types layers test
