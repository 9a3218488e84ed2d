#!/usr/bin/env python
"""Django's command line; without DJANGO_SETTINGS_MODULE it is the embedded deployment."""

import os
import sys

from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bettercompute.settings.embedded")
    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        sys.exit(
            f"{error} Commands want the variables of the deployment, BETTERCOMPUTE_SECRET_KEY among"
            " them: see docs/operations/configuration.md."
        )
