"""The checker of C6: what it must flag, what it must not, and that the product passes."""

import subprocess
import sys
from pathlib import Path

import pytest

from scripts import check_sql_now

pytestmark = [pytest.mark.rule("C6"), pytest.mark.rule("C4")]

ROOT = Path(__file__).resolve().parents[2]


def python(text):
    return check_sql_now.check_python(text, "app/module.py")


def sql(text):
    return check_sql_now.check_sql(text, "app/sql/x.sql")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT now()",
        "SELECT NOW ( )",
        "SELECT pg_catalog.now()",
        "SELECT CURRENT_TIMESTAMP",
        "SELECT current_timestamp(3)",
        "SELECT LOCALTIMESTAMP",
        "SELECT transaction_timestamp()",
        "SELECT statement_timestamp()",
        "SELECT clock_timestamp()",
        "SELECT CURRENT_DATE",
        "SELECT timeofday()",
        "SELECT 'now'::timestamptz",
        "SELECT timestamptz 'now'",
        "CREATE FUNCTION f() RETURNS timestamptz AS $$ SELECT now() $$",
        "-- a comment\nSELECT now()",
        "SELECT 1, -- note\n now()",
    ],
)
def test_sql_that_reads_another_clock_is_flagged_in_files_and_strings(text):
    assert sql(text)
    assert python(f"statement = {text!r}")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT compute_now()",
        "SELECT compute_now() + interval '1 s'",
        "SELECT my_now()",
        "SELECT t.now FROM t",
        "SELECT known()",
        "-- now() would be wrong here\nSELECT compute_now()",
        "/* never\n now() */ SELECT 1",
        "SELECT current_timestamps FROM t",
        "SELECT now()  -- check-sql-now: allow",
        "-- measured by the server: check-sql-now: allow\nSELECT clock_timestamp()",
        "SELECT 'right now' AS label",
    ],
)
def test_sql_that_does_not_is_not_flagged(text):
    assert sql(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "x = 'SELECT ' 'now' '()'",
        "x = 'SELECT no' + 'w()'",
        "x = f'SELECT {a} FROM t WHERE at < now()'",
        "x = f'SELECT {a}' f' WHERE at < now()'",
        "x = '''\nSELECT a\n  FROM t\n WHERE at < now()\n'''",
        "cursor.execute('DELETE FROM t WHERE at < %s AND x < CURRENT_TIMESTAMP')",
        "x = 'SELECT {} WHERE at < now()'.format(a)",
        "X = {'take': 'SELECT now()'}",
    ],
)
def test_strings_are_read_from_the_syntax_tree_not_by_line(text):
    assert python(text)


@pytest.mark.parametrize(
    "text",
    [
        "from datetime import datetime\nx = datetime.now()",
        "from datetime import datetime as dt, UTC\nx = dt.now(UTC)",
        "import datetime\nx = datetime.datetime.utcnow()",
        "import datetime\nx = datetime.date.today()",
        "import time\nx = time.time()",
        "import time as clockwork\nx = clockwork.time_ns()",
        "from time import time\nx = time()",
        "from time import time as seconds\nx = seconds()",
        "from django.utils import timezone\nx = timezone.now()",
        "from django.utils import timezone\nx = Field(default=timezone.now)",
        "from django.utils.timezone import now\nx = now()",
        "from django.db.models.functions import Now\nx = Now()",
        "from django.db.models import functions\nx = functions.Now()",
        "x = models.DateTimeField(auto_now=True)",
        "x = models.DateTimeField(auto_now_add=True)",
        "def f():\n    import time\n    return time.time()",
    ],
)
def test_time_from_the_process_is_flagged(text):
    assert python(text)


@pytest.mark.parametrize(
    "text",
    [
        "from bettercompute import clock\nx = clock.now()",
        "import time\nx = time.monotonic()",
        "import time\nx = time.perf_counter()",
        "from datetime import datetime\nx = datetime.fromisoformat(text)",
        "x = shop.now()",
        "def now():\n    '''Not like now().'''",
        "'''Docstrings may say now() and CURRENT_TIMESTAMP.'''",
        "import time\nx = time.time()  # check-sql-now: allow",
        "import time\n# Only a sort key. check-sql-now: allow\nx = time.time()",
        "x = 'SELECT now()'  # check-sql-now: allow",
        "x = 'see you right now'",
        "x = Path('/etc/localtime')",
        "x = f'The devices are yours now ({until})'",
        "x = {'auto_now': 1}",
    ],
)
def test_what_only_looks_alike_is_not_flagged(text):
    assert python(text) == []


def test_a_mark_covers_its_own_line_only():
    text = "x = '''\nSELECT now() -- check-sql-now: allow\n, clock_timestamp()\n'''"
    assert [hit.line for hit in python(text)] == [3]
    assert [hit.line for hit in sql("SELECT now(), -- check-sql-now: allow\n now()")] == [2]


def test_hits_name_their_line():
    assert [hit.line for hit in python("a = 1\n\nb = '''\nSELECT\n now()'''")] == [5]
    assert str(sql("SELECT\n now()")[0]) == "app/sql/x.sql:2: now() in SQL"


def test_only_the_defining_migration_and_the_clock_are_exempt():
    definition = "bettercompute/coordination/migrations/sql/0001_clock.sql"
    assert check_sql_now.check_sql("SELECT now()", definition) == []
    assert check_sql_now.check_sql("SELECT now()", definition.replace("0001", "0002"))
    reading = "import time\nx = time.time()"
    assert check_sql_now.check_python(reading, "bettercompute/clock.py") == []
    assert check_sql_now.check_python(reading, "bettercompute/clocks.py")


def test_the_product_reads_one_clock_only():
    paths = [ROOT / name for name in check_sql_now.PRODUCT]
    assert [str(hit) for hit in check_sql_now.check(path for path in paths if path.exists())] == []


def test_the_command_fails_on_a_hit_and_names_it(tmp_path):
    (tmp_path / "bad.sql").write_text("SELECT now();\n", encoding="utf-8")
    script = ROOT / "scripts" / "check_sql_now.py"
    done = subprocess.run(
        [sys.executable, script, tmp_path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "bad.sql:1: now() in SQL" in done.stdout
