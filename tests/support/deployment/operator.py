"""The test's end of the line to `console`."""

import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bettercompute.embedded import processes
from bettercompute.embedded.programs import ROOT


class Operator:
    """Prepares a deployment's database when made, and checks it when asked."""

    def __init__(self, *, nodes: int, env: Mapping[str, str], log: Path) -> None:
        self._log = log
        self._lock = threading.Lock()
        with log.open("ab") as written:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", "tests.support.deployment.console", str(nodes)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=written,
                cwd=ROOT,
                env=dict(env),
                start_new_session=True,
                text=True,
            )
        self.seeded: dict[str, Any] = {}

    def wait_until_prepared(self) -> None:
        self.seeded = self._read()

    def ask(self, question: str) -> list[str]:
        with self._lock:
            assert self._popen.stdin is not None
            self._popen.stdin.write(f"{question}\n")
            self._popen.stdin.flush()
            answer: list[str] = self._read()
            return answer

    def close(self) -> None:
        # It ends when its input does.
        self._popen.communicate(timeout=20)

    def _read(self) -> Any:
        assert self._popen.stdout is not None
        line = self._popen.stdout.readline()
        assert line, f"the operator's process ended: {processes.last_lines(self._log, count=8)}"
        return json.loads(line)
