"""Who a process is: somebody else after every start, and after every fork (C32)."""

import os
import socket
import subprocess
import sys

import pytest

from bettercompute.coordination import owner

pytestmark = pytest.mark.rule("C32")

TELL = "from bettercompute.coordination import owner; print(owner.OWNER)"
TELL_AFTER_A_FORK = """
import os
from bettercompute.coordination import owner
child = os.fork()
if child:
    os.waitpid(child, 0)
print(owner.OWNER, flush=True)
"""


def test_each_start_on_the_same_host_is_somebody_else():
    told = [subprocess.check_output([sys.executable, "-c", TELL], text=True) for _ in range(2)]
    assert len({*told, owner.OWNER}) == 3
    assert socket.gethostname() not in told[0]


def test_a_forked_child_is_not_its_parent():
    told = subprocess.check_output([sys.executable, "-c", TELL_AFTER_A_FORK], text=True).split()
    assert len(set(told)) == 2
    assert all(name.startswith("own_") for name in told)


def test_people_are_told_where_it_runs():
    assert owner.note() == f"{socket.gethostname()} pid {os.getpid()}"
