# Every target installs first if it must. Needs Python 3.11 or newer with venv, and make.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: install demo test lint types contracts check bench bench-store bench-growth bench-agents bench-place bench-iam \
	bench-instances bench-processes bench-console torture histories docs lock clean

install: $(INSTALLED)

$(INSTALLED): requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --no-index --editable .
	touch $@

demo: install
	$(BIN)/better-compute serve --demo

test: install
	$(BIN)/pytest

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/squawk --config .squawk.toml adapters/postgres/migrations/*.sql

types: install
	$(BIN)/mypy

contracts: install
	$(BIN)/lint-imports

check: lint types contracts test

bench: install
	$(BIN)/python -m tests.bench

bench-store: install
	$(BIN)/python -m tests.bench.store

bench-agents: install
	$(BIN)/python -m tests.bench.agents

bench-place: install
	$(BIN)/python -m tests.bench.place

bench-iam: install
	$(BIN)/python -m tests.bench.iam

bench-instances: install
	$(BIN)/python -m tests.bench.images
	$(BIN)/python -m tests.bench.instances

bench-console: install
	$(BIN)/python -m tests.bench.console

bench-processes: install
	$(BIN)/python -m tests.bench.processes

bench-growth: install
	$(BIN)/python -m tests.bench.growth

torture: install
	$(BIN)/python -m tests.torture

histories: install
	PYTHONPATH=.:tests $(BIN)/python -m histories

docs: install
	$(BIN)/python -m adapters.reference docs/reference
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --config-file .mkdocs.yml

lock: install
	$(BIN)/uv pip compile pyproject.toml --group dev --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-emit-find-links --no-header --quiet --output-file requirements.lock

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .site .artifacts
