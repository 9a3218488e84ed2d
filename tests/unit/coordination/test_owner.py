"""Who a process is: somebody else after every start, and after every fork (C32)."""

import os
import socket
import subprocess
import sys

import pytest

from bettercompute.coordination import owner

pytestmark = pytest.mark.rule("C32")

TELL = "from bettercompute.coordination import owner; print(owner.OWNER)"


def test_each_start_on_the_same_host_is_somebody_else():
    told = [subprocess.check_output([sys.executable, "-c", TELL], text=True) for _ in range(2)]
    assert len({*told, owner.OWNER}) == 3
    assert socket.gethostname() not in told[0]


def test_a_forked_child_is_not_its_parent():
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writes, owner.OWNER.encode())
        os._exit(0)
    os.waitpid(child, 0)
    told = os.read(reads, 100).decode()
    os.close(reads)
    os.close(writes)
    assert told.startswith("own_")
    assert told != owner.OWNER


def test_people_are_told_where_it_runs():
    assert owner.note() == f"{socket.gethostname()} pid {os.getpid()}"
