import math

import numpy as np
import pytest

from tokur_cli.records.errors import UsageError
from tokur_cli.scores import catalogue
from tokur_cli.scores.catalogue import CATALOGUE, choose_scores, compute_scores, group_confidences, score_named

TOKENS = {
    "logprob": np.array([-0.5, -2.0, -0.25], np.float32),
    "entropy": np.array([1.0, 2.0, 0.5], np.float32),
    "tu": np.array([1.5, 2.5, 1.0], np.float32),
    "au": np.array([1.0, 2.0, 0.75], np.float32),
    "eu": np.array([0.5, 0.5, 0.25], np.float32),
    "eu_kl": np.array([0.5, 0.25, 0.25], np.float32),
    "eu_fisher": np.array([1.0, 0.25, 0.25], np.float32),
    "self_certainty": np.array([10.0, 12.0, 14.0], np.float32),
    "deepconf": np.array([6.0, 3.0, 9.0], np.float32),
    "margin": np.array([0.5, 0.25, 0.75], np.float32),
    "p_true": np.float64(0.75),
    "p_correct": np.float64(0.625),
    "attention_log_diagonal": np.array([-1.0, -2.5], np.float32),
    "hidden_eigenvalues": np.array([np.e - 1e-3, 1 / np.e - 1e-3, np.e**3 - 1e-3]),
    "top_entropy": np.array([0.5, 1.0, 0.75], np.float32),
    "set_classes": np.array([0, 1, 0]),
    "set_log_likelihoods": np.log([0.002, 0.001, 0.004]),
    "set_mean_log_likelihoods": np.log([0.5, 0.25, 0.25]),
    "set_similarity": np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.0], [0.5, 0.0, 1.0]]),
    "set_states": np.array([[3.0, 1.0, 2.0], [1.0, 1.0, 1.0], [0.0, 2.0, 1.0]]),
}
BY_HAND = {
    "tu": 5.0, "au": 3.75, "eu": 1.25, "tu_mean": 5 / 3, "au_mean": 1.25, "eu_mean": 1.25 / 3,
    "eu_kl": 1.0, "eu_kl_mean": 1 / 3, "eu_fisher": 1.5, "eu_fisher_mean": 0.5,
    "ll": -2.75 / 3, "ll_sum": -2.75, "ll_min": -2.0, "pe": 3.5 / 3, "pe_sum": 3.5,
    "self_certainty": 12.0, "self_certainty_sum": 36.0,
    "deepconf": 6.0, "deepconf_sum": 18.0, "margin": 0.5,
    "deepconf_group": 6.0, "deepconf_bottom10": 6.0, "deepconf_tail": 6.0,
    "neg_length": -3.0, "p_true": 0.75, "p_correct": 0.625, "llm_check_attention": -3.5, "llm_check_hidden": 1.0,
    "llm_check_perplexity": math.exp(2.75 / 3), "llm_check_window_entropy": 2.0, "llm_check_logit_entropy": 0.75,
    # Centred over their features the states are (1, −1, 0), 0 and (−1, 1, 0): eigenvalues 4, 0 and 0
    "inside": (math.log(4.001) + 2 * math.log(0.001)) / 3,
    "semantic_entropy": -(math.log(0.75) + math.log(0.25)) / 2,
    "sar": -(math.log(0.002 + 500 * 0.004) + math.log(0.001) + math.log(0.004 + 500 * 0.002)) / 3,
    # Degrees 1.5, 1, 1.5; of the Laplacian's eigenvalues 0, 0 and 2/3 all count, so the embedding is a rotation
    "u_ecc": math.sqrt(2), "u_deg": 1 - (1.5 + 1 + 1.5) / 9,
}  # fmt: skip

BEYOND = {"p_true", "p_correct", "inside", "semantic_entropy", "sar", "u_ecc", "u_deg"} | {
    f"llm_check_{name}" for name in ("attention", "hidden", "logit_entropy")
}


def test_every_score_of_a_small_response_by_hand():
    assert compute_scores([CATALOGUE[name] for name in BY_HAND], TOKENS) == pytest.approx(BY_HAND)


def test_a_sample_has_its_own_degree_and_eccentricity():
    """Of texts this alike the first eigenvector alone counts, which is the root of the degrees."""
    alike, degrees = np.array([[1, 1, 0.8], [0.8, 1, 1], [0.9, 0.9, 1]]), np.array([2.75, 2.85, 2.8])
    given = TOKENS | {"set_similarity": alike}
    scores = choose_scores("u_ecc,u_deg,inside")
    found = [compute_scores(scores, given | {"set_place": np.intp(place)}) for place in range(3)]
    assert [one["u_deg"] for one in found] == pytest.approx(1 - degrees / 3)
    root = np.sqrt(degrees / degrees.sum())
    assert [one["u_ecc"] for one in found] == pytest.approx(abs(root - root.mean()))
    (alone,) = choose_scores("u_ecc")
    assert str(alone.compute({"set_similarity": np.ones((3, 3)), "set_place": np.array(1)})) == "0.0", "not -0.0"
    assert {one["inside"] for one in found} == {compute_scores(scores, TOKENS)["inside"]}


def test_a_set_of_one_text_has_no_score_and_one_of_two_has():
    names = ("inside", "semantic_entropy", "sar", "u_ecc", "u_deg")
    scores = choose_scores(",".join(names))
    given = {name: values for name, values in TOKENS.items() if name.startswith("set_")}
    for count in (1, 2):
        few = {name: values[(slice(count),) * (1 + (name == "set_similarity"))] for name, values in given.items()}
        assert all(math.isfinite(value) == (count == 2) for value in compute_scores(scores, few).values())


@pytest.mark.parametrize(
    ("broken", "names"),
    [
        ({"set_states": np.full((3, 3), np.inf)}, "inside"),
        ({"set_states": np.full((3, 3), np.nan)}, "inside"),
        ({"set_log_likelihoods": np.array([-1, np.nan, -2])}, "sar"),
        ({"set_mean_log_likelihoods": np.array([-1, np.nan, -2])}, "semantic_entropy"),
        ({"set_similarity": np.array([[1.0, np.nan], [np.nan, 1.0]])}, "sar,u_ecc,u_deg"),
    ],
)
def test_a_set_for_which_the_model_gave_no_numbers_has_no_score(broken, names):
    for name in names.split(","):
        scores = choose_scores(name)
        features = {**TOKENS, **broken}
        found = compute_scores(scores, {need: features[need] for need in scores[0].needs})
        assert math.isnan(found[name]), name


def test_orientations_say_which_way_is_better():
    uncertainties = {
        "tu", "au", "eu", "tu_mean", "au_mean", "eu_mean", "pe", "pe_sum",
        "eu_kl", "eu_kl_mean", "eu_fisher", "eu_fisher_mean",
        "llm_check_perplexity", "llm_check_window_entropy", "llm_check_logit_entropy",
        "inside", "semantic_entropy", "sar", "u_ecc", "u_deg",
    }  # fmt: skip
    assert {name for name in BY_HAND if CATALOGUE[name].orientation == "uncertainty"} == uncertainties


def test_group_scores_of_a_response_longer_than_the_window(monkeypatch):
    """Windows of three tokens: the lowest one, the last one, and the mean of the lowest tenth of them, rounded down."""
    assert catalogue.GROUP_TOKENS == 2048  # of DeepConf
    monkeypatch.setattr(catalogue, "GROUP_TOKENS", 3)
    confidence = np.array([5, 4, 3, 2, 1, 2, 3, 4, 5, 6, 7, 8], np.float32)
    groups = [sum(confidence[i : i + 3]) / 3 for i in range(10)]
    for windows, counted in ((9, 1), (10, 1), (15, 1), (19, 1), (20, 2), (25, 2)):
        of_tokens = {"deepconf": np.arange(windows + 2, dtype=np.float32)}  # windows of mean 1, 2, 3, …
        got = compute_scores(choose_scores("deepconf_bottom10"), of_tokens)
        assert got == {"deepconf_bottom10": (1 + counted) / 2}, windows
    got = compute_scores(choose_scores("deepconf_group,deepconf_bottom10,deepconf_tail"), {"deepconf": confidence})
    assert group_confidences(confidence) == pytest.approx(groups)
    assert got == pytest.approx({"deepconf_group": min(groups), "deepconf_bottom10": min(groups), "deepconf_tail": 7.0})


def test_a_score_of_one_quantity_is_spoken_for_by_its_aggregate():
    names = ("eu_mean", "pe", "self_certainty_sum", "ll_min", "neg_length", "semantic_entropy")
    spoken_for = [CATALOGUE[name].representative for name in names]
    assert spoken_for == ["eu", "pe_sum", "self_certainty", "ll_sum", "neg_length", "semantic_entropy"]


def test_scores_are_chosen_in_the_catalogues_order():
    assert [score.name for score in choose_scores("ll, eu")] == ["eu", "ll"]
    aside = BEYOND | {"ll_min", "margin"} | {f"eu_{how}{of}" for how in ("kl", "fisher") for of in ("", "_mean")}
    assert {name for name, score in CATALOGUE.items() if not score.default} == aside
    assert [CATALOGUE[name].cost for name in ("eu_mean", "ll")] == ["M passes", "nothing"]
    assert choose_scores("all") == list(CATALOGUE.values())
    assert choose_scores(None) == choose_scores("default") == [score for score in CATALOGUE.values() if score.default]
    assert [score.name for score in choose_scores("p_true, default")] == [
        name for name, score in CATALOGUE.items() if score.default or name == "p_true"
    ]
    for names in ("", ",", "eu,nothing"):
        with pytest.raises(UsageError):
            choose_scores(names)
    assert choose_scores("LL, Eu") == choose_scores("eu,ll")
    with pytest.raises(UsageError, match=r"--by: unknown score EU_MEEN; did you mean eu_mean\?"):
        score_named("EU_MEEN", "--by")
