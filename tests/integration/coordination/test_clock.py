from datetime import timedelta

import pytest
from django.db import connection

from bettercompute import clock as clock_module


@pytest.mark.rule("C5")
def test_simulated_time_stands_still_until_it_is_advanced(clock):
    before = clock.now()
    assert clock.now() == before
    clock.advance("15m")
    assert clock.now() == before + timedelta(minutes=15)


@pytest.mark.rule("C4")
def test_sql_and_python_read_the_same_clock(clock):
    clock.advance("3h")
    with connection.cursor() as cursor:
        cursor.execute("SELECT compute_now()")
        (in_sql,) = cursor.fetchone()
    assert in_sql == clock_module.now()
