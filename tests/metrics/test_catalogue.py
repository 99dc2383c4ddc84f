"""The table of metrics: what is said of a metric elsewhere agrees with its entry."""

import inspect

from tokur_cli.app.commands import evaluate
from tokur_cli.metrics.catalogue import METRICS, PROBABILITY, SECTIONS, WITHIN, leading, metrics_of


def test_the_help_says_what_each_metric_is_and_which_have_no_interval():
    text = " ".join(inspect.getdoc(evaluate).split())
    for metric in METRICS.values():
        assert metric.meaning in text, metric.name
        if not {WITHIN, PROBABILITY} & set(metric.sections):
            assert metric.title in text
    without = [metric.title for metric in METRICS.values() if not metric.has_interval]
    assert f"All but {', '.join(without)} with bootstrap intervals" in text


def test_every_metric_is_in_a_table_and_the_leading_one_allows_the_labels():
    assert {metric.name for section in SECTIONS for metric in metrics_of(section)} == METRICS.keys()
    assert [leading(is_binary=is_binary).name for is_binary in (True, False)] == ["auroc", "prr"]
