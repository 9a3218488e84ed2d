"""`run_with`: a command on services of its own, which end with it."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

RUN_WITH = [sys.executable, "-m", "bettercompute.embedded.run_with"]
EMBEDDED = {
    key: value
    for key, value in os.environ.items()
    if not key.startswith(("DATABASE_URL", "REDIS_URL"))
}
GIVEN = {**EMBEDDED, "DATABASE_URL": "postgresql:///none", "REDIS_URL": "redis://none"}

TELL = """
import json, os, psycopg, redis
with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
    sockets, fsync = connection.execute(
        "SELECT current_setting('unix_socket_directories'), current_setting('fsync')"
    ).fetchone()
assert redis.Redis.from_url(os.environ["REDIS_URL"]).ping()
print(json.dumps([sockets, fsync, os.getpid()]), flush=True)
"""


def run(
    *command: str, env: dict[str, str] = EMBEDDED, copies: int = 1
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*RUN_WITH, f"--copies={copies}", "--", *command],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_command_has_both_services_and_they_end_with_it() -> None:
    done = run(sys.executable, "-c", TELL)

    assert done.returncode == 0, done.stderr
    sockets, fsync, _ = json.loads(done.stdout)
    assert fsync == "off"
    assert not Path(sockets).exists()
    assert not Path(sockets).parent.exists()


def test_the_exit_code_is_the_commands() -> None:
    assert run("sh", "-c", "exit 7", env=GIVEN).returncode == 7
    assert run("sh", "-c", "kill -KILL $$", env=GIVEN).returncode == 128 + signal.SIGKILL


def test_given_addresses_replace_the_services() -> None:
    done = run("sh", "-c", 'echo "$DATABASE_URL $REDIS_URL"', env=GIVEN)

    assert done.stdout == "postgresql:///none redis://none\n"


def test_each_copy_of_the_services_is_apart_from_the_others() -> None:
    addresses = 'echo "$DATABASE_URL $REDIS_URL $DATABASE_URL_2 $REDIS_URL_2 $DATABASE_URL_3"'
    program = TELL.replace('_URL"]', '_URL_2"]')

    done = run("sh", "-c", f'{addresses}; exec "$0" -c "$1"', sys.executable, program, copies=2)

    assert done.returncode == 0, done.stderr
    named, told = done.stdout.splitlines()
    assert len(set(named.split())) == len(named.split()) == 4
    sockets, _, _ = json.loads(told)
    assert f"host={sockets}" in named.split()[2]
    assert not Path(sockets).parents[1].exists()


def test_given_addresses_are_one_copy_and_this_is_said() -> None:
    done = run("sh", "-c", 'echo "$DATABASE_URL ${DATABASE_URL_2-none}"', env=GIVEN, copies=2)

    assert done.stdout == "postgresql:///none none\n"
    assert done.stderr == ("DATABASE_URL or REDIS_URL is given: one copy of the services, not 2.\n")


def test_a_command_that_is_not_there_is_one_line() -> None:
    done = run("no-such-command", env=GIVEN)

    assert (done.returncode, done.stderr) == (127, "no-such-command: No such file or directory\n")


def test_no_command_is_wrong_usage() -> None:
    assert run().returncode == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_reaches_the_command_once_and_the_services_wait_for_it(
    number: signal.Signals,
) -> None:
    program = TELL + (
        "import signal, sys, time\n"
        "def stop(number, frame):\n"
        "    with psycopg.connect(os.environ['DATABASE_URL']) as connection:\n"
        "        connection.execute('SELECT 1')\n"
        "    print(f'stopped by {number}', flush=True)\n"
        "    sys.exit(5)\n"
        f"signal.signal({int(number)}, stop)\n"
        "print('waiting', flush=True)\n"
        "time.sleep(60)\n"
    )
    process = subprocess.Popen(
        [*RUN_WITH, "--", sys.executable, "-c", program],
        env=EMBEDDED,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    sockets, _, command = json.loads(process.stdout.readline())
    assert process.stdout.readline() == "waiting\n"

    process.send_signal(number)

    assert process.stdout.read() == f"stopped by {int(number)}\n"
    assert process.wait(60) == 5
    process.stdout.close()
    assert not Path(sockets).exists()
    assert not psutil.pid_exists(command)


def test_a_killed_run_leaves_no_process() -> None:
    process = subprocess.Popen(
        [*RUN_WITH, "--", sys.executable, "-c", TELL + "import time; time.sleep(60)"],
        env=EMBEDDED,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    sockets, _, command = json.loads(process.stdout.readline())
    children = psutil.Process(process.pid).children(recursive=True)
    assert {child.name() for child in children} >= {"postgres", "valkey-server"}

    process.kill()
    process.wait()
    process.stdout.close()

    _, alive = psutil.wait_procs(children, timeout=60)
    shutil.rmtree(Path(sockets).parent)  # files stay after a SIGKILL, processes do not
    assert alive == []
    assert not psutil.pid_exists(command)
