"""Accuracies of a selection by hand."""

from tokur_cli.selection.accuracy import SelectionAccuracy


def test_summary_has_choice_majority_and_oracle_and_leaves_out_what_has_no_labels():
    accuracy = SelectionAccuracy()
    accuracy.add([True, False, False], [0, 1, 1], 0)
    accuracy.add([False, False, True, True], [0, 0, 1, 1], None)  # two tied classes
    accuracy.add([True, None], [0, 1], 0)
    assert accuracy.summary() == (
        "accuracy 50.00%, majority 25.00%, Pass@1 41.67%, Pass@N 100.00% (2 questions, 1 without labels left out)"
    )


def test_summary_of_choices_that_may_abstain_has_their_coverage():
    accuracy = SelectionAccuracy(abstains=True)
    accuracy.add([True], [0], 0)
    accuracy.add([True], [0], 0, answers=False)
    assert accuracy.summary() == "coverage 50.00%, accuracy of what is answered 100.00% (2 questions)"
    assert SelectionAccuracy().summary() is None
