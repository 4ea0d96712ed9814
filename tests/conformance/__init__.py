"""What every supported database must hold, tested on each with the same tests."""
