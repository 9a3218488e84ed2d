"""Settings of a deployment behind HTTPS. Demo data is refused here (U10)."""

from django.core.exceptions import ImproperlyConfigured

from bettercompute.settings.base import *  # noqa: F403
from bettercompute.settings.base import ALLOWED_HOSTS, ENV, SECRET_KEY, WEBHOOK_KEYS

DEMO_ALLOWED = False
LOG_FORMAT = (
    "json"
    if "bettercompute_log_format" not in ENV.model_fields_set
    else ENV.bettercompute_log_format
)

if len(SECRET_KEY) < 50:
    raise ImproperlyConfigured("BETTERCOMPUTE_SECRET_KEY must have at least 50 characters.")
if any(len(key) < 32 for key in WEBHOOK_KEYS):
    raise ImproperlyConfigured("Each of BETTERCOMPUTE_WEBHOOK_KEYS must have 32 characters.")
if not ALLOWED_HOSTS:
    raise ImproperlyConfigured("BETTERCOMPUTE_ALLOWED_HOSTS must name the hosts you serve.")

SECURE_SSL_REDIRECT = True
SECURE_HSTS_SECONDS = 31_536_000
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SESSION_COOKIE_SECURE = True
CSRF_COOKIE_SECURE = True
