"""The WSGI application: all of Django, for servers that speak nothing else and for tests.

``better-compute up`` and the documented deployments run ``bettercompute.asgi``, which wraps this
stack in threads and adds what must not hold one, and the heartbeat: under this application alone
an outage of the API is not noticed, and leases of reservations run on through it.
"""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bettercompute.settings.embedded")

from django.core.wsgi import get_wsgi_application

application = get_wsgi_application()
