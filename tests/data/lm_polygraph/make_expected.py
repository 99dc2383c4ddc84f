"""Writes expected.json: small inputs, and what lm-polygraph computes of them. Runs where that is installed."""

import json
from pathlib import Path

import numpy as np
from lm_polygraph.estimators import DegMat, Eccentricity, EigenScore, SemanticEntropy, SentenceSAR
from lm_polygraph.estimators.common import compute_sim_score
from lm_polygraph.stat_calculators import SemanticClassesCalculator

SIZES = range(2, 11)
DIMENSION = 12
ENTAILMENT, OTHER = 2, 0
SAMPLES = Path(__file__).parents[3] / "samples" / "responses_n16.jsonl"
TEXTS = [
    ["a b c", "a b c"],
    ["The answer is 12.", "the answer is 12.", "The answer is 84.", "Twelve"],
    ["I do not know", "", "unsure"],
    ["one two", "two one", "one two three", "three four", "five"],
]


def of_matrices(size: int) -> dict:
    random = np.random.default_rng(size)
    similarity = random.uniform(size=(size, size)).round(6)
    if size % 2:  # two blocks, so that eigenvalues lie on both sides of the threshold
        half = size // 2
        similarity[:half, half:] *= 0.05
        similarity[half:, :half] *= 0.05
    similarity = similarity.round(6)
    np.fill_diagonal(similarity, 1)
    stats = {"sample_texts": [[""] * size], "semantic_matrix_entail": similarity[None]}
    log_likelihoods = random.uniform(-30, -0.1, size).round(6)
    embeddings = random.normal(scale=3, size=(size, DIMENSION)).round(6)
    sar = {"sample_log_probs": [log_likelihoods], "sample_sentence_similarity": [similarity]}
    entails = random.uniform(size=(size, size)) < 0.75
    matrix = np.where(entails, ENTAILMENT, OTHER)[None]
    texts = [[""] * size]
    found = SemanticClassesCalculator()(
        {"sample_texts": texts, "semantic_matrix_classes": matrix, "entailment_id": ENTAILMENT}, [""], None
    )
    classes = found["semantic_classes_entail"]["sample_to_class"][0]
    meanings = {"sample_texts": texts, "sample_log_probs": [log_likelihoods], **found}
    return {
        "similarity": similarity.tolist(),
        "u_deg": float(DegMat()(stats)[0]),
        "u_ecc": float(Eccentricity()(stats)[0]),
        "log_likelihoods": log_likelihoods.tolist(),
        "sentence_sar": float(SentenceSAR()(sar)[0]),
        "embeddings": embeddings.tolist(),
        "eigen_score": float(EigenScore()({"sample_embeddings": [embeddings]})[0]),
        "entails": entails.tolist(),
        "classes": [classes[text] for text in range(size)],
        "semantic_entropy": float(SemanticEntropy()(meanings)[0]),
        "semantic_entropy_frequency": float(SemanticEntropy(class_probability_estimation="frequency")(meanings)[0]),
    }


def of_texts(texts: list[str]) -> dict:
    stats = {"sample_texts": [texts]}
    return {
        "texts": texts,
        "jaccard": compute_sim_score(texts, "entail", "Jaccard_score").tolist(),
        "u_deg": float(DegMat("Jaccard_score")(stats)[0]),
        "u_ecc": float(Eccentricity("Jaccard_score")(stats)[0]),
    }


def main() -> None:
    responses = [json.loads(line)["response"] for line in SAMPLES.read_text(encoding="utf-8").split("\n")[:32] if line]
    texts = [*TEXTS, responses[:8], responses[16:24]]
    expected = {"matrices": [of_matrices(size) for size in SIZES], "texts": [of_texts(group) for group in texts]}
    parts = [
        f'"{name}": [\n' + ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases) + "\n]"
        for name, cases in expected.items()
    ]
    Path(__file__).with_name("expected.json").write_text("{" + ",\n".join(parts) + "}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
