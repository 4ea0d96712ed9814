# Two commands for newcomers: `make run` and `make test`. All others are listed by `make help`.

PYTHON ?= python3
WEB ?= 127.0.0.1:8000
ARGS ?=
LANES ?=
BIN := .venv/bin
CHECKS := tests/test_quality.py tests/test_architecture.py tests/test_docs.py tests/webhookhub/console/test_translations.py

.PHONY: help run demo demo-workflows check test test-all torture bench screenshots messages setup clean
.DEFAULT_GOAL := help

help:
	@echo "make run     set up and run the whole hub on its embedded database, with samples (WEB=$(WEB))"
	@echo "make demo    publish sample events, deliver them, sum up, leave"
	@echo "make demo-workflows  seven services take part in business workflows, some of which go wrong; a table of outcomes"
	@echo "make check   linters, types, architecture, docs, translations, migrations: under a minute"
	@echo "make test    set up and run the test suite: under ten minutes (ARGS='-k name' goes to pytest)"
	@echo "make test-all  every test on every database, long torture, mutants: under an hour (LANES='torture galera')"
	@echo "make torture kill everything at random for 90 s and look whether anything is lost (ARGS='--seconds 600 …')"
	@echo "make bench   set up and run the benchmark, about ten minutes (ARGS='drain floor --quick' goes to it)"
	@echo "make screenshots  make the pictures in docs/ anew, from the console of a hub that delivers"
	@echo "make messages     collect the pages' texts for translation, and compile what is translated"
	@echo "make setup   only the set-up, into .venv"
	@echo "make clean   remove what the above have made, data included"

# exec: no shell stands between make and the demo, so that a signal to make reaches it.
run: setup
	@exec $(BIN)/python -m tools.demo --stay --web $(WEB) $(ARGS)

demo: setup
	@exec $(BIN)/python -m tools.demo $(ARGS)

demo-workflows: setup
	@exec $(BIN)/python -m tools.demo.workflows $(ARGS)

check: .venv/.tests
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal $(CHECKS) $(ARGS)

# exec: no shell stands between make and the tests, so that a signal to make ends them.
test: .venv/.tests
	@exec $(BIN)/python -m tests $(ARGS)

test-all: .venv/.tests
	@exec $(BIN)/python -m tests.nightly $(LANES)

torture: .venv/.tests
	@exec $(BIN)/python -m tools.torture $(ARGS)

bench: .venv/.bench
	@mkdir -p var/bench
	@exec $(BIN)/python -m tools.bench --json var/bench/figures.json --plots var/bench $(ARGS)

screenshots: .venv/.tests
	@exec $(BIN)/python -m tools.screenshots $(ARGS)

# Needs gettext (apt-get install gettext). What is new is to be translated in locale/, then this is run again.
messages: setup
	@$(BIN)/python manage.py makemessages -l zh_Hant --no-location --no-obsolete --no-wrap \
		--ignore .venv --ignore tests --ignore tools --ignore var
	@$(BIN)/python manage.py compilemessages -l zh_Hant --ignore .venv

# The driver is no file to be made once: what it is built from may appear later, as may the wish for it.
setup: .venv/.packages
	@./setup.sh driver

.venv/.packages: pyproject.toml setup.py constraints.txt
	@./setup.sh environment $(PYTHON)
	@touch $@

.venv/.tests: .venv/.packages
	@./setup.sh tests
	@touch $@

.venv/.bench: .venv/.packages
	@./setup.sh bench
	@touch $@

clean:
	rm -rf .venv var staticfiles build *.egg-info webhookhub/client/build webhookhub/client/*.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
