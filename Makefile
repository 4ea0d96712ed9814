# Two commands for newcomers: `make run` and `make test`. All others are listed by `make help`.

PYTHON ?= python3
WEB ?= 127.0.0.1:8000
ARGS ?=
BIN := .venv/bin

.PHONY: help run demo demo-workflows test torture mutants bench screenshots messages setup clean
.DEFAULT_GOAL := help

help:
	@echo "make run     set up and run the whole hub on its embedded database, with samples (WEB=$(WEB))"
	@echo "make demo    publish sample events, deliver them, sum up, leave"
	@echo "make demo-workflows  seven services take part in business workflows, some of which go wrong; a table of outcomes"
	@echo "make test    set up and run the whole test suite (ARGS='-k name' goes to pytest)"
	@echo "make torture kill everything at random for 90 s and look whether anything is lost (ARGS='--seconds 600 …')"
	@echo "make mutants take one guard at a time out of a copy, and demand that the tests notice (some minutes)"
	@echo "make bench   set up and run the benchmark, about ten minutes (ARGS='drain floor --quick' goes to it)"
	@echo "make screenshots  make the pictures in docs/ anew, from the console of a hub that delivers"
	@echo "make messages     collect the pages' texts for translation, and compile what is translated"
	@echo "make setup   only the set-up, into .venv"
	@echo "make clean   remove what the above have made, data included"

# exec: no shell stands between make and the demo, so that a signal to make reaches it.
run: setup
	@exec $(BIN)/python -m demo --stay --web $(WEB) $(ARGS)

demo: setup
	@exec $(BIN)/python -m demo $(ARGS)

demo-workflows: setup
	@exec $(BIN)/python -m demo.workflows $(ARGS)

test: .venv/.tests
	@$(BIN)/python -m tests $(ARGS)

torture: .venv/.tests
	@exec $(BIN)/python -m tests.torture $(ARGS)

mutants: .venv/.tests
	@$(BIN)/python -m tests.mutants $(ARGS)

bench: .venv/.bench
	@mkdir -p var/bench
	@exec $(BIN)/python -m bench --json var/bench/figures.json --plots var/bench $(ARGS)

screenshots: .venv/.tests
	@exec $(BIN)/python -m tests.screenshots $(ARGS)

# Needs gettext (apt-get install gettext). What is new is to be translated in locale/, then this is run again.
messages: setup
	@$(BIN)/python manage.py makemessages -l zh_Hant --no-location --no-obsolete --no-wrap \
		--ignore .venv --ignore tests --ignore bench --ignore var
	@$(BIN)/python manage.py compilemessages -l zh_Hant --ignore .venv

# The driver is no file to be made once: what it is built from may appear later, as may the wish for it.
setup: .venv/.packages
	@./setup.sh driver

.venv/.packages: pyproject.toml constraints.txt
	@./setup.sh environment $(PYTHON)
	@touch $@

.venv/.tests: .venv/.packages
	@./setup.sh tests
	@touch $@

.venv/.bench: .venv/.packages
	@./setup.sh bench
	@touch $@

clean:
	rm -rf .venv var staticfiles *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
