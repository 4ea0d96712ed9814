# Two commands for newcomers: `make run` and `make test`. All others are listed by `make help`.

PYTHON ?= python3
WEB ?= 127.0.0.1:8000
ARGS ?=
BIN := .venv/bin

.PHONY: help run demo test setup clean
.DEFAULT_GOAL := help

help:
	@echo "make run     set up and run the whole hub on its embedded database, with samples (WEB=$(WEB))"
	@echo "make demo    publish sample events, deliver them, sum up, leave"
	@echo "make test    set up and run the whole test suite (ARGS='-k name' goes to pytest)"
	@echo "make setup   only the set-up, into .venv"
	@echo "make clean   remove what the above have made, data included"

run: setup
	@$(BIN)/python -m demo --stay --web $(WEB) $(ARGS)

demo: setup
	@$(BIN)/python -m demo $(ARGS)

test: .venv/.tests
	@$(BIN)/python -m tests $(ARGS)

setup: .venv/.packages

.venv/.packages: pyproject.toml constraints.txt
	@./setup.sh environment $(PYTHON)
	@touch $@

.venv/.tests: .venv/.packages
	@./setup.sh tests
	@touch $@

clean:
	rm -rf .venv var staticfiles *.egg-info
