"""The table of metrics."""

from tokur_cli.metrics.catalogue import METRICS, SECTIONS, leading, metrics_of


def test_every_metric_is_in_a_table_and_the_leading_one_allows_the_labels():
    assert {metric.name for section in SECTIONS for metric in metrics_of(section)} == METRICS.keys()
    assert [leading(is_binary=is_binary).name for is_binary in (True, False)] == ["auroc", "prr"]
