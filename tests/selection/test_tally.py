from tokur_cli.selection.tally import Tally


def test_accuracies_by_hand():
    tally = Tally()
    tally.add([True, False, False, False], chosen=0, majority=1)
    tally.add([True, True, True, False], chosen=3, majority=0)
    tally.add([False, False, False, False], chosen=2, majority=0)
    tally.add([True, True, True, True], chosen=None, majority=0)
    assert tally.summary() == "accuracy 25.00%, majority 50.00%, Pass@1 50.00%, Pass@4 75.00% (4 questions)"


def test_a_question_with_an_unknown_label_is_left_out_and_counted():
    tally = Tally()
    tally.add([True, None], chosen=0, majority=0)
    assert tally.summary() is None
    tally.add([True], chosen=0, majority=0)
    assert tally.summary() == (
        "accuracy 100.00% (1 question, 1 without labels left out): with one response each there is nothing to choose"
    )


def test_unequal_n_is_called_n():
    tally = Tally()
    tally.add([True], chosen=0, majority=0)
    tally.add([True, False, False, False], chosen=1, majority=1)
    assert tally.summary() == "accuracy 50.00%, majority 50.00%, Pass@1 62.50%, Pass@N 100.00% (2 questions)"
