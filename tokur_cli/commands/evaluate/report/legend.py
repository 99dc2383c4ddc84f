"""What the metrics of ``tokur evaluate`` say, for its help."""

from __future__ import annotations

from tokur_cli.metrics.catalogue import METRICS, SpanMetric


def explained(*, of_spans: bool) -> str:
    """Return what the metrics say, those of spans within their responses or the others, in sentences."""
    chosen = [metric for metric in METRICS.values() if isinstance(metric, SpanMetric) == of_spans]
    titles: dict[str, list[str]] = {}
    for metric in chosen:
        titles.setdefault(metric.meaning, []).append(metric.title)
    sentences = [f"{', '.join(named)}: {meaning}." for meaning, named in titles.items()]
    if without := [metric.title for metric in chosen if not metric.has_interval]:
        sentences.append(f"All but {', '.join(without)} with bootstrap intervals.")
    return " ".join(sentences)
