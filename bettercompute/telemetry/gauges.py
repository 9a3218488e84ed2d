"""What rows say at a scrape: each app's ``gauges.py`` reads some, ``wiring.GAUGES`` lists them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

Look = Callable[[], Iterable["Gauge"]]


@dataclass(slots=True)
class Gauge:
    """One metric of Prometheus: its name without ``better_compute_``, and its samples."""

    name: str
    meaning: str
    labels: tuple[str, ...] = ()
    samples: dict[tuple[str, ...], float] = field(default_factory=dict)

    def add(self, value: float, *labels: str) -> None:
        """One sample more; where these labels have one already, its value grows."""
        assert len(labels) == len(self.labels), (self.name, labels)
        self.samples[labels] = self.samples.get(labels, 0.0) + value
