# sagedesk. `make up` is all that a newcomer needs; `make help` lists the rest.
PYTHON ?= python3
BOOTSTRAP = $(PYTHON) .ci/bootstrap.py
BIN = .venv/bin
# A Label Studio that is already there needs no environment here.
SERVER = $(if $(LABEL_STUDIO_URL),,label-studio)
FAST = -n 2 --dist loadfile -m "not server and not model and not gpu and not slow"
COVERED ?= $(FAST)

.PHONY: help up setup check test test-fast bench bench-learning coverage docs format clean-state

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

up:  ## set everything up and run Label Studio and the desk, with a sign-in link
	@$(BOOTSTRAP) desk $(SERVER)
	@exec $(BIN)/sagedesk up

setup:  ## everything that running and testing need, without starting anything
	@$(BOOTSTRAP) desk label-studio models browser

check:  ## ruff, codespell, mypy --strict, import-linter, generated docs
	@$(BOOTSTRAP) desk
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m ui.commands.reference --check

test: setup  ## the whole suite, with servers and browser
	$(BIN)/python -m pytest

test-fast:  ## under 90 seconds, no servers, no models, no training: for your own loop
	@$(BOOTSTRAP) desk
	$(BIN)/python -m pytest $(FAST)

coverage:  ## what the fast tests run: a table, and htmlcov/; `make coverage COVERED=` for the whole suite
	@$(BOOTSTRAP) desk
	$(BIN)/python -m pytest $(COVERED) --cov --cov-report=term --cov-report=html

bench: setup  ## the table of ratios, measured side by side
	$(BIN)/python -m tests.bench

bench-learning: setup  ## what training brings, hours of CPU; writes docs/learning.md
	$(BIN)/python -m tests.bench.learning

docs:  ## write the generated pages: docs/cli.md, docs/schema.md
	$(BIN)/python -m ui.commands.reference

format:  ## ruff's formatter and its safe repairs
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean-state:  ## delete the desk's state, SAGEDESK_STATE or var/ (asks first)
	@$(PYTHON) .ci/clean_state.py
