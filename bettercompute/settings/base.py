"""Settings that every deployment shares."""

from pathlib import Path

from kombu import Exchange
from kombu.common import Broadcast

from bettercompute.settings import env

ENV = env.Environment()
BASE_DIR = Path(__file__).resolve().parents[2]

DEBUG = False
SECRET_KEY = ENV.bettercompute_secret_key.get_secret_value()
SECRET_KEY_FALLBACKS = list(env.keys(ENV.bettercompute_secret_key_fallbacks))
ALLOWED_HOSTS = [h for h in ENV.bettercompute_allowed_hosts.split(",") if h]
CSRF_TRUSTED_ORIGINS = [o for o in ENV.bettercompute_trusted_origins.split(",") if o]

INSTALLED_APPS = [
    "bettercompute.coordination",
    "bettercompute.audit",
    "bettercompute.iam",
    "outbox",
    "nodes",
    "pools",
    "reservations",
    "bettercompute.operators.apps.OperatorsConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "django.contrib.humanize",
    "django_htmx",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
]

MIDDLEWARE = [
    "bettercompute.web.requests.RequestContextMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "bettercompute.web.csp.ContentSecurityPolicyMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "bettercompute.web.requests.RefuseNulMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

ROOT_URLCONF = "bettercompute.urls"
WSGI_APPLICATION = "bettercompute.wsgi.application"
APPEND_SLASH = False

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "reservations.pages.asks.header",
            ],
        },
    },
]

DATABASES = {"default": env.database(ENV.database_url.get_secret_value())}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = ENV.redis_url.get_secret_value()
# Sessions and everything else durable are rows: Valkey may be emptied at any time (C1).
SESSION_ENGINE = "django.contrib.sessions.backends.db"

AUTH_USER_MODEL = "iam.Account"
LOGIN_URL = "/login"
LOGIN_REDIRECT_URL = "/"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]

USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
USE_I18N = False

STATIC_URL = "/static/"
STATIC_ROOT: Path | None = ENV.bettercompute_data / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]

SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"

BODY_BYTES_MAX = 256 * 1024
DATA_UPLOAD_MAX_MEMORY_SIZE = BODY_BYTES_MAX
FILE_UPLOAD_HANDLERS = ["django.core.files.uploadhandler.TemporaryFileUploadHandler"]

# Limits of requests (A11); 0 switches one off.
REQUESTS_PER_SECOND = ENV.bettercompute_requests_per_second
ATTEMPTS_PER_MINUTE = ENV.bettercompute_attempts_per_minute
# Whose X-Forwarded-For is believed, as networks.
TRUSTED_PROXIES = env.networks(ENV.bettercompute_trusted_proxies)

WEB_THREADS = ENV.bettercompute_web_threads

EVENT_RETENTION_DAYS = ENV.bettercompute_event_retention_days
# What webhooks may call beside public addresses by https (A6).
WEBHOOK_NETWORKS = env.networks(ENV.bettercompute_webhook_networks)
WEBHOOK_PLAIN_HTTP = ENV.bettercompute_webhook_plain_http
WEBHOOK_RETENTION_DAYS = ENV.bettercompute_webhook_retention_days
# They encrypt the secrets of webhooks, the first of them what is written now; without any, a key
# made from SECRET_KEY does.
WEBHOOK_KEYS = env.keys(ENV.bettercompute_webhook_keys)
AUDIT_RETENTION_DAYS = ENV.bettercompute_audit_retention_days

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["bettercompute.web.authentication.ApiAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["bettercompute.web.authentication.IsCaller"],
    "DEFAULT_RENDERER_CLASSES": ["bettercompute.web.rendering.JsonRenderer"],
    "DEFAULT_PARSER_CLASSES": ["bettercompute.web.parsing.JsonParser"],
    "DEFAULT_SCHEMA_CLASS": "bettercompute.web.openapi.Schema",
    "EXCEPTION_HANDLER": "bettercompute.web.problems.handle",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Better Compute",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SORT_OPERATIONS": False,
    # Ours only: enums keep the names that the wire's models have.
    "POSTPROCESSING_HOOKS": ["bettercompute.web.document.complete"],
}
CSRF_FAILURE_VIEW = "bettercompute.web.pages.csrf_failure"

# What runs is listed in one place; coordination, below it in the layers, finds it here.
WIRING = "bettercompute.wiring"
# Locks by which the workers of one host know which of them are dead (C34); None does without.
PRESENCE_DIRECTORY: Path | None = ENV.bettercompute_data / "processes"
HINTS = True  # tell the workers to look after a commit; they look every second anyway

# Messages are wake-ups without content: every worker gets each, none is stored, none is missed.
CELERY_BROKER_URL = env.celery_broker(REDIS_URL)
_WAKEUPS = Exchange("bettercompute.wakeups", type="fanout")
CELERY_TASK_QUEUES = (Broadcast(_WAKEUPS.name, exchange=_WAKEUPS),)
CELERY_TASK_DEFAULT_QUEUE = _WAKEUPS.name
CELERY_TASK_DEFAULT_EXCHANGE = _WAKEUPS.name
CELERY_TASK_DEFAULT_EXCHANGE_TYPE = _WAKEUPS.type
# A sender that has not declared the exchange takes it for a direct one and reaches nobody.
CELERY_TASK_ROUTES = {"*": {"declare": [_WAKEUPS]}}
CELERY_TASK_IGNORE_RESULT = True  # results are rows
CELERY_TASK_ACKS_LATE = True  # a worker takes no more hints than it has threads
CELERY_TASK_TIME_LIMIT = 120
CELERY_TASK_SOFT_TIME_LIMIT = 90
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_POOL = "threads"  # one process is one owner of leases; its threads share them
CELERY_WORKER_CONCURRENCY = 4
CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT = 10
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
# Celery would put a proxy of its logger in the place of standard error, to which our handler
# writes: each line would go round in a circle, and be dropped.
CELERY_WORKER_REDIRECT_STDOUTS = False
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = False  # they need no broker
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # a broker that is gone comes back some day
CELERY_BROKER_TRANSPORT_OPTIONS = {
    # Nothing is kept until it is acknowledged. With the emulation a worker that acknowledges, or
    # closes its connection, after the broker died raises what nobody catches, and ends.
    "ack_emulation": False,
    "health_check_interval": 25,
    "socket_connect_timeout": 2,
}
# In memory, nothing to edit at run time: two beats are harmless, since ticks are under leases.
CELERY_BEAT_SCHEDULER = "bettercompute.coordination.pacemaker:BeatingScheduler"
CELERY_BEAT_MAX_LOOP_INTERVAL = 1
CELERY_BEAT_SCHEDULE = {
    "tick": {
        "task": "bettercompute.coordination.tasks.tick",
        "schedule": 1.0,
    },
}

LOGGING_CONFIG = None  # bettercompute.web.logs configures structlog and the standard library
LOG_FORMAT = ENV.bettercompute_log_format
LOG_LEVEL = env.log_level(ENV.bettercompute_log_level)
LOG_LEVELS = env.log_levels(ENV.bettercompute_log_levels)

# What processes of one host count, each in files of its own; None keeps it in their memory.
METRICS_DIRECTORY: Path | None = ENV.bettercompute_data / "metrics"
# Whoever has it may read /metrics; without one, only operators may, with tokens of theirs.
METRICS_TOKEN = ENV.bettercompute_metrics_token.get_secret_value()
