"""Results as a table for people and as JSON for programs."""

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import cpu
from benchmarks.bare import Bare
from benchmarks.cpu import Spent
from benchmarks.load import Measured
from benchmarks.supply import Supply

COLUMNS = (
    *("clients", "created/s", "median", "p99", "released/s", "bare SQL/s", "ratio"),
    *("web", "PostgreSQL"),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One number of clients on one pool."""

    create: Measured
    spent: Spent
    release: Measured
    bare: Bare

    @property
    def ratio(self) -> float:
        """The share of the bare SQL rate that a create reaches over HTTP."""
        return self.create.rate / self.bare.rate

    def cpu_ms(self, part: str) -> float:
        """Processor time of a part for each create."""
        return self.spent.milliseconds_each(part, len(self.create.latencies_ms))


@dataclass(frozen=True, slots=True)
class PoolResult:
    """Everything measured on one pool."""

    supply: Supply
    preview: Measured
    rows: Sequence[Row]


def table(result: PoolResult) -> str:
    """Markdown, as docs/benchmarks.md has it."""
    supply, preview = result.supply, result.preview
    lines = [
        f"### {supply.nodes:,} nodes, {supply.gpus:,} GPUs ({supply.name})",
        "",
        f"| {' | '.join(COLUMNS)} |",
        "|---" * len(COLUMNS) + "|",
    ]
    for row in result.rows:
        create = row.create
        lines.append(
            f"| {create.clients} | {create.rate:.0f} | {create.percentile(0.5):.1f} ms"
            f" | {create.percentile(0.99):.1f} ms | {row.release.rate:.0f}"
            f" | {row.bare.rate:.0f} | {row.ratio:.2f}"
            f" | {row.cpu_ms(cpu.WEB):.1f} ms | {row.cpu_ms(cpu.POSTGRES):.1f} ms |"
        )
    told = (
        f"Preview, {preview.clients} client: median {preview.percentile(0.5):.1f} ms,"
        f" p99 {preview.percentile(0.99):.1f} ms, {preview.rate:.0f} a second."
    )
    lines += ["", told, ""]
    return "\n".join(lines)


def write(results: Sequence[PoolResult], path: Path) -> None:
    """The same as JSON."""
    document = {
        "machine": machine(),
        "pools": [
            {
                "nodes": result.supply.nodes,
                "gpus": result.supply.gpus,
                "preview": _summary(result.preview),
                "create": [
                    {
                        **_summary(row.create),
                        "releasedPerSecond": round(row.release.rate, 1),
                        "bareSqlPerSecond": round(row.bare.rate, 1),
                        "bareSqlStatements": row.bare.statements,
                        "ratio": round(row.ratio, 3),
                        "cpuMs": {
                            part: round(row.cpu_ms(part), 2)
                            for part in (cpu.WEB, cpu.POSTGRES, cpu.CLIENT)
                        },
                    }
                    for row in result.rows
                ],
            }
            for result in results
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def machine() -> dict[str, object]:
    """What it ran on, and how busy that was."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(": ", 1)[1] for line in lines if line.startswith("model name")), "")


def _summary(measured: Measured) -> dict[str, object]:
    return {
        "clients": measured.clients,
        "perSecond": round(measured.rate, 1),
        "medianMs": round(measured.percentile(0.5), 2),
        "p99Ms": round(measured.percentile(0.99), 2),
        "requests": len(measured.latencies_ms),
    }
