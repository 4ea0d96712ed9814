#!/bin/sh
# Sets up what the Makefile's targets need. Quick if it is already set up.
#   setup.sh environment [PYTHON]   the virtual environment and the packages to run the hub
#   setup.sh driver                 also: the MySQL driver, if it can be built or DATABASE_URL needs it
#   setup.sh tests                  also: a MySQL-family server, its driver, a browser and the test tools
#   setup.sh bench                  also: a MySQL-family server, its driver, and Celery for comparison
set -eu
pip() { .venv/bin/python -m pip --disable-pip-version-check -q "$@"; }

# Installs Debian packages if possible; otherwise prints which are missing.
system_packages() {
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing system packages: $*"
    # Update the package list only if the first attempt fails.
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1 ||
      { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null; }
  else
    echo "Install these system packages (or equivalents) first: $*" >&2
    exit 1
  fi
}

# To build the MySQL driver.
DRIVER_PACKAGES="build-essential pkg-config libmariadb-dev python3-dev"

# True if DATABASE_URL, in the environment or in .env, is a MySQL-family server.
needs_driver() {
  case ${DATABASE_URL-unset} in
  unset) grep -Eqs '^(export +)?DATABASE_URL=.?mysql' .env ;;
  mysql*) true ;;
  *) false ;;
  esac
}

# The name in Debian, and in other distributions.
has_browser() { command -v chromium >/dev/null || command -v chromium-browser >/dev/null; }

has_driver() { .venv/bin/python -c 'import MySQLdb' 2>/dev/null; }

# True if the MySQL driver can be built here.
can_build_driver() {
  command -v cc >/dev/null && command -v pkg-config >/dev/null &&
    { pkg-config --exists mysqlclient || pkg-config --exists libmariadb || pkg-config --exists mariadb; } &&
    .venv/bin/python -c 'import os, sysconfig; assert os.path.exists(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null
}

case ${1:-} in
environment)
  python=${2:-python3}
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    { echo "Python 3.11 or newer is required; set PYTHON: make PYTHON=python3.12 …" >&2; exit 1; }
  "$python" -c 'import ensurepip, venv' 2>/dev/null || system_packages python3-venv
  [ -x .venv/bin/python ] || "$python" -m venv .venv
  echo "Installing Python packages into .venv"
  pip install -c constraints.txt -e .
  ;;
driver)
  ! has_driver || exit 0
  if ! can_build_driver; then
    needs_driver || exit 0 # the embedded database does not need it
    system_packages $DRIVER_PACKAGES
  fi
  echo "Building the MySQL driver"
  # The whole package, so that the constraints apply to all dependencies.
  pip install -c constraints.txt -e '.[mysql]' || ! needs_driver ||
    { echo "DATABASE_URL is a MySQL-family server, but its driver could not be built; see above." >&2; exit 1; }
  ;;
tests)
  PATH=$PATH:/usr/sbin
  command -v mariadbd >/dev/null || command -v mysqld >/dev/null || [ -n "${TEST_DATABASE_URL:-}" ] ||
    system_packages mariadb-server
  # In a subshell: without a browser, the tests that need one are skipped.
  has_browser || (system_packages chromium) || echo "Without it, the browser tests are skipped."
  can_build_driver || system_packages $DRIVER_PACKAGES
  pip install -c constraints.txt -e '.[mysql,test]'
  ;;
bench)
  PATH=$PATH:/usr/sbin
  command -v mariadbd >/dev/null || command -v mysqld >/dev/null || system_packages mariadb-server
  # In a subshell: only the scenario celery needs it, and is skipped without it.
  command -v redis-server >/dev/null || (system_packages redis-server) || echo "Without it, Celery is not measured."
  can_build_driver || system_packages $DRIVER_PACKAGES
  pip install -c constraints.txt -e '.[mysql,bench]'
  ;;
*)
  sed -n '2,6p' "$0"
  exit 2
  ;;
esac
