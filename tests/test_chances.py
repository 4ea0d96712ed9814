"""The suite's second chance, with real runs of pytest over small suites in a scratch folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.chances import MOST, run_suite

UNSTEADY = """
from pathlib import Path

def test_unsteady():
    flag = Path(__file__).with_suffix(".{number}")
    seen = flag.exists()
    flag.touch()
    assert seen
"""


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run() -> int:
    unrelated = {name: value for name, value in os.environ.items() if not name.startswith(("DJANGO", "PYTEST"))}
    return run_suite(["-q"], {**unrelated, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})


def put(suite: Path, name: str, text: str) -> None:
    file = suite / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_one_that_passes_the_second_time_is_named_and_passes(suite: Path, capfd: pytest.CaptureFixture[str]) -> None:
    put(suite, "tests/processes/test_a.py", UNSTEADY.format(number=1))
    assert run() == 0
    assert (
        "Once more, because it may have been the clock: tests/processes/test_a.py::test_unsteady"
        in capfd.readouterr().out
    )


def test_one_that_fails_twice_has_failed(suite: Path) -> None:
    put(suite, "tests/processes/test_a.py", "def test_wrong():\n    assert False\n")
    assert run() == 1


def test_many_failures_are_no_accident(suite: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for number in range(MOST + 1):
        put(suite, f"tests/processes/test_{number}.py", UNSTEADY.format(number=number))
    assert run() == 1
    assert "Once more" not in capfd.readouterr().out


@pytest.mark.parametrize("folder", ["torture", "machine", "model", "conformance"])
def test_a_test_that_looks_for_what_is_rare_gets_no_second_chance(folder: str, suite: Path) -> None:
    put(suite, f"tests/{folder}/test_a.py", UNSTEADY.format(number=1))
    assert run() == 1


def test_a_file_that_cannot_be_read_gets_none_either(suite: Path) -> None:
    put(suite, "tests/processes/test_a.py", "import nothing_of_that_name\n")
    assert run() == 2


def test_a_suite_that_passes_is_run_once(suite: Path, capfd: pytest.CaptureFixture[str]) -> None:
    put(suite, "tests/processes/test_a.py", "def test_right():\n    pass\n")
    assert run() == 0
    assert capfd.readouterr().out.count("1 passed") == 1
