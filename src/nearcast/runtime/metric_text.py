"""Prometheus' text form, written directly: a scrape must not stop the server's loop for long."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

__all__ = ["MetricText"]

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})


class MetricText:
    """Families of metrics, each with the same first labels.

    Parameters
    ----------
    labels
        Which all samples have.
    """

    def __init__(self, labels: Mapping[str, str] | None = None) -> None:
        self._labels = ",".join(_label(name, value) for name, value in (labels or {}).items())
        self._lines: list[str] = []

    def add(self, name: str, kind: str, meaning: str, value: float) -> None:
        """Add a family of one sample."""
        self._head(name, kind, meaning)
        labels = f"{{{self._labels}}}" if self._labels else ""
        self._lines.append(f"{name}{labels} {value}")

    def add_by(
        self, name: str, kind: str, meaning: str, label: str, values: Iterable[tuple[str, float]]
    ) -> None:
        """Add a family of a sample for each value of a label."""
        self._head(name, kind, meaning)
        start = f"{name}{{{self._labels}," if self._labels else f"{name}{{"
        self._lines += [f"{start}{_label(label, one)}}} {value}" for one, value in values]

    def add_histograms(
        self,
        name: str,
        meaning: str,
        label: str,
        histograms: Iterable[tuple[str, Iterable[tuple[str, int]], float]],
    ) -> None:
        """Add a histogram for each value of a label: its counts by upper bound, and its sum."""
        self._head(name, "histogram", meaning)
        for one, buckets, sum_s in histograms:
            labels = ",".join(filter(None, (self._labels, _label(label, one))))
            total = 0
            for bound, count in buckets:
                total += count
                self._lines.append(f'{name}_bucket{{{labels},le="{bound}"}} {total}')
            self._lines.append(f"{name}_count{{{labels}}} {total}")
            self._lines.append(f"{name}_sum{{{labels}}} {sum_s}")

    def encode(self) -> bytes:
        """Return all of it."""
        return ("\n".join(self._lines) + "\n").encode()

    def _head(self, name: str, kind: str, meaning: str) -> None:
        meaning = meaning.translate(_HELP_ESCAPES)
        self._lines.append(f"# HELP {name} {meaning}\n# TYPE {name} {kind}")


def _label(name: str, value: str) -> str:
    return f'{name}="{value.translate(_ESCAPES)}"'
