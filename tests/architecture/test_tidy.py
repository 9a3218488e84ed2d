"""The style that a machine can check: sizes, names, and files that nothing uses.

Empty packages are in test_imports, statements that nothing runs in test_sql_prepares.
"""

import ast
import functools
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("bettercompute", "outbox", "nodes", "pools", "reservations")
FUNCTION_LINES_MAX = 60
MODULE_LINES_MAX = 400

# Longer than the rest, each with why.
LONG_MODULES = {
    "nodes/admin.py",  # a register a table, eleven of them
    "tests/integration/console/test_pages.py",  # one deployment seen through every page
    "tests/integration/nodes/test_gateway.py",  # one service: its calls share hosts and answers
    "tests/support/damage.py",  # one damage a check: a list that is read as one
    "tests/unit/agent/test_nvidia.py",  # what drivers really print
    "tests/unit/pools/test_planner.py",  # one function, every shape of demand
}

# A name that says nothing of what is inside: whatever goes there has no home yet.
EMPTY_NAMES = {"common", "helper", "helpers", "managers", "misc", "services", "util", "utils"}
NAMED_AFTER_WHAT_THEY_HOLD = {
    "bettercompute/embedded/services.py",  # PostgreSQL and Valkey
    "tests/faults/embedded/test_services.py",
}
EMPTY_WORDS = {"helper", "helpers", "impl", "misc", "stuff", "tmp", "util", "utils"}
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_BANNER = re.compile(r"^\s*#\s*[-=*#]{3,}", re.MULTILINE)

# Django, gunicorn and whoever deploys name these outside of our code.
NAMED_ELSEWHERE = re.compile(
    r"manage\.py|admin/|errors/\d{3}\.html|css/admin"
    r"|.*/(__init__|admin|apps|models|asgi|wsgi|gunicorn_conf)\.py|.*/(commands|settings)/"
)


def _files(*folders, suffixes=(".py",)):
    return [
        path.relative_to(ROOT).as_posix()
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in suffixes
        and not {"__pycache__", "vendor", "migrations"} & set(path.relative_to(ROOT).parts)
    ]


@functools.cache
def _text(path):
    return (ROOT / path).read_text(encoding="utf-8")


PRODUCT = [*_files(*PACKAGES), "manage.py"]
CODE = [*PRODUCT, *_files("tests", "scripts", "benchmarks")]
TEMPLATES = _files("templates", suffixes=(".html",))
STATIC = _files("static", suffixes=(".css", ".js"))


@functools.cache
def _definitions(text):
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]


def _named(text, *kinds):
    return [node for node in _definitions(text) if isinstance(node, kinds)]


def long_functions(text):
    """Functions beyond the limit, with their lines."""
    sizes = {
        node.name: node.end_lineno - node.lineno + 1
        for node in _named(text, ast.FunctionDef, ast.AsyncFunctionDef)
    }
    return {name: lines for name, lines in sizes.items() if lines > FUNCTION_LINES_MAX}


def empty_names(text):
    """Classes and functions with a word in their name that means nothing of its own."""
    named = _named(text, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [
        node.name
        for node in named
        if EMPTY_WORDS & {word.lower() for word in _WORDS.findall(node.name)}
    ]


def unused(paths, users, mention):
    """Those of these files that no other file mentions."""
    return [path for path in paths if not _is_mentioned(path, users, mention(path))]


def _is_mentioned(path, users, pattern):
    stem = Path(path).stem  # looked for first: a pattern costs much more
    return any(
        stem in _text(user) and pattern.search(_text(user)) for user in users if user != path
    )


def _template_mention(path):
    return re.compile(rf'"{re.escape(path.removeprefix("templates/"))}"')


def _static_mention(path):
    # Linked by its path, imported by its name, or listed by its stem.
    path = Path(path)
    return re.compile(rf'{re.escape(path.name)}\b|"{re.escape(path.stem)}"')


def _module_mention(path):
    package, _, name = path.removesuffix(".py").replace("/", ".").rpartition(".")
    whole = re.escape(f"{package}.{name}")
    # Commands are named where they are listed, and imported when they are run.
    listed = rf'|\bEntry\(\s*"{name}"' if package == "bettercompute.cli" else ""
    return re.compile(rf"\b{whole}\b|from {re.escape(package)} import [^)]*?\b{name}\b{listed}")


def test_a_function_fits_on_a_screen():
    assert {path: found for path in CODE if (found := long_functions(_text(path)))} == {}


def test_a_module_is_short_unless_it_has_a_reason():
    long = {path for path in CODE if len(_text(path).splitlines()) > MODULE_LINES_MAX}
    assert long - LONG_MODULES == set()


def test_a_module_is_named_after_what_it_holds():
    empty = {path for path in CODE if Path(path).stem.removeprefix("test_") in EMPTY_NAMES}
    assert empty - NAMED_AFTER_WHAT_THEY_HOLD == set()


def test_classes_and_functions_have_names_that_mean_something():
    assert {path: found for path in CODE if (found := empty_names(_text(path)))} == {}


def test_the_product_has_no_banners():
    assert [path for path in PRODUCT if _BANNER.search(_text(path))] == []


def test_every_module_is_used():
    ours = [path for path in PRODUCT if not NAMED_ELSEWHERE.match(path)]
    assert unused(ours, CODE, _module_mention) == []


def test_every_template_is_rendered_or_included():
    ours = [p for p in TEMPLATES if not NAMED_ELSEWHERE.match(p.removeprefix("templates/"))]
    assert unused(ours, [*PRODUCT, *TEMPLATES], _template_mention) == []


def test_every_static_file_is_linked():
    assert unused(STATIC, [*PRODUCT, *TEMPLATES, *STATIC], _static_mention) == []


def test_decisions_are_numbered_in_a_row_and_headed_by_their_numbers():
    paths = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert [int(path.name[:4]) for path in paths] == list(range(1, len(paths) + 1))
    headed = [path.read_text(encoding="utf-8").partition(".")[0] for path in paths]
    assert headed == [f"# {number}" for number in range(1, len(paths) + 1)]


class TestTheChecksThemselves:
    """A check that finds nothing may be one that cannot find anything."""

    def test_a_long_function_is_found_inside_a_class(self):
        line = "        pass\n"
        text = "class A:\n    async def f(self):\n" + line * FUNCTION_LINES_MAX
        assert long_functions(text) == {"f": FUNCTION_LINES_MAX + 1}
        assert long_functions(text.removesuffix(line)) == {}

    def test_an_empty_word_is_found_in_either_spelling(self):
        text = "def read_utils(): ...\nclass BookingHelper: ...\ndef utility(): ..."
        assert sorted(empty_names(text)) == ["BookingHelper", "read_utils"]

    def test_a_banner_is_more_than_a_comment(self):
        assert _BANNER.search("x = 1\n    # --- steps -----\n")
        assert not _BANNER.search("# -- name: take\n# - a list\n")

    def test_a_file_that_only_mentions_itself_is_unused(self):
        here = Path(__file__).relative_to(ROOT).as_posix()
        assert unused([here], [here], _module_mention) == [here]
        assert unused(["bettercompute/clock.py"], CODE, _module_mention) == []
