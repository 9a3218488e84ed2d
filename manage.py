#!/usr/bin/env python
"""Django's command line; without DJANGO_SETTINGS_MODULE it is the embedded deployment."""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bettercompute.settings.embedded")
    execute_from_command_line(sys.argv)
