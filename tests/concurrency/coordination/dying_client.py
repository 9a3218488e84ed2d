"""A process of the product that opens a fenced transaction, says so, and stays in it."""

import sys
import time

import django

django.setup()

from bettercompute import clock  # noqa: E402  # Django's settings come first
from bettercompute.coordination import fencing, leases, workqueue  # noqa: E402

clock.follow_sim_clock()
lease = leases.take(sys.argv[1])
assert lease is not None
with fencing.fenced(lease):
    workqueue.enqueue("node", "node_of_the_dead")
    print(lease.epoch, flush=True)
    time.sleep(60)
