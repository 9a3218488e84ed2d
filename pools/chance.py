"""The one source of chance of the planner: equal candidates are taken in random order (C18).

So rivals do not collide three times, and load is spread. It decides no secret.
"""

import random

RNG = random.Random()  # noqa: S311
