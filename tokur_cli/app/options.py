"""Options that mean the same in every command that has them; one without a default shows none in the help."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

MODEL, DECODING, POSTERIOR, INPUT, OUTPUT = "Model", "Decoding", "Posterior", "Input", "Output"
EVALUATION, BASELINES = "Evaluation", "Baselines"
SELECTION = "Selection"
STRENGTH = "Strength"
SCALE, CHOICE, PICTURE = "Scale", "Choice", "Picture"
"""Panels of the help."""


class SamplingChoice(str, Enum):
    """How draws and decoding steps go together."""

    stepwise = "stepwise"
    shared = "shared"
    joint = "joint"


class EstimatorChoice(str, Enum):
    """How epistemic uncertainty is estimated from the draws."""

    paper = "paper"
    kl = "kl"
    fisher = "fisher"


class BackendChoice(str, Enum):
    """What generates."""

    transformers = "transformers"
    vllm = "vllm"


class OverChoice(str, Enum):
    """Which texts inside, semantic_entropy, sar, u_ecc and u_deg compare."""

    attempts = "attempts"
    samples = "samples"


class EntailmentChoice(str, Enum):
    """What tells which text entails which."""

    nli = "nli"
    judge = "judge"
    answers = "answers"
    exact = "exact"


class SimilarityChoice(str, Enum):
    """What tells how alike texts are."""

    embedding = "embedding"
    nli = "nli"
    jaccard = "jaccard"


class DtypeChoice(str, Enum):
    """Numbers the model computes with."""

    auto = "auto"
    float32 = "float32"
    bfloat16 = "bfloat16"
    float16 = "float16"


class MethodChoice(str, Enum):
    """How an answer is chosen from the responses that are kept."""

    maj = "maj"
    wbon = "wbon"
    bon = "bon"


class WeightChoice(str, Enum):
    """What weighted votes weigh."""

    score = "score"
    exp = "exp"
    rank = "rank"


class VerdictChoice(str, Enum):
    """Responses by whether they are right."""

    correct = "correct"
    incorrect = "incorrect"


class ColourChoice(str, Enum):
    """When text is coloured."""

    auto = "auto"
    always = "always"
    never = "never"


class ThemeChoice(str, Enum):
    """The background that a picture is for."""

    auto = "auto"
    dark = "dark"
    light = "light"


class MarksChoice(str, Enum):
    """What stands beside colour."""

    auto = "auto"
    none = "none"
    bars = "bars"
    values = "values"


def _explain_scores(names: str | None) -> str | None:
    """Print the catalogue and stop where it is asked for."""
    if names == "help":
        from tokur_cli.commands.catalogue import print_catalogue

        print_catalogue()
        raise typer.Exit
    return names


Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        help="Hub id, folder or GGUF file. Default: the model that the records name, then TOKUR_MODEL, then the "
        "embedded smollm2-135m-instruct.",
        rich_help_panel=MODEL,
        show_default=False,
    ),
]
Revision = Annotated[
    str | None, typer.Option(help="Branch, tag or commit on the hub.", rich_help_panel=MODEL, show_default=False)
]
Dtype = Annotated[
    DtypeChoice, typer.Option(help="auto: bfloat16 where the hardware multiplies it fast.", rich_help_panel=MODEL)
]
DeviceMap = Annotated[
    str, typer.Option(help="accelerate's device map: auto, cpu, cuda:0, balanced …", rich_help_panel=MODEL)
]
TrustRemoteCode = Annotated[
    bool, typer.Option("--trust-remote-code", help="Run code that comes with the model.", rich_help_panel=MODEL)
]
BatchTokens = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Positions in a batch, all draws counted; halved when memory does not suffice. Default: by device.",
        rich_help_panel=MODEL,
        show_default=False,
    ),
]
PosteriorFolder = Annotated[
    str | None,
    typer.Option(
        "--posterior",
        metavar="DIR",
        help="A posterior that tokur perturb wrote, in place of the options below.",
        rich_help_panel=POSTERIOR,
        show_default=False,
    ),
]
DrawCount = Annotated[
    int | None,
    typer.Option(min=1, help="M, draws from the posterior. Default: 2.", rich_help_panel=POSTERIOR, show_default=False),
]
Rank = Annotated[
    int | None,
    typer.Option(min=1, help="r', rank of the noise. Default: 8.", rich_help_panel=POSTERIOR, show_default=False),
]
Sigma = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBER|auto",
        help="σ_q, perturbation strength; auto: what the posterior was calibrated to. Default: 0.1.",
        rich_help_panel=POSTERIOR,
        show_default=False,
    ),
]
FixedSigma = Annotated[
    float | None,
    typer.Option(
        min=0.0, help="σ_q, perturbation strength. Default: 0.1.", rich_help_panel=POSTERIOR, show_default=False
    ),
]
Sampling = Annotated[
    SamplingChoice,
    typer.Option(
        help="stepwise: a fresh draw a token (the paper); shared: one a response; joint: shared, weighted by the "
        "response's probability.",
        rich_help_panel=POSTERIOR,
    ),
]
Estimator = Annotated[
    EstimatorChoice,
    typer.Option(
        help="Of EU: paper (the draws beside each other), kl or fisher (each draw beside the unperturbed model: less "
        "noise for the same price).",
        rich_help_panel=POSTERIOR,
    ),
]
Targets = Annotated[
    str | None,
    typer.Option(
        help="Projections to perturb: comma-separated ends of names, or globs. Fused weights have such parts too. "
        "Default: q_proj,k_proj.",
        rich_help_panel=POSTERIOR,
        show_default=False,
    ),
]
Layers = Annotated[
    str | None,
    typer.Option(
        metavar="FIRST:END",
        help="Layers to perturb, as a slice: 15: is layer 15 and above. Those below are computed once for all draws. "
        "Default: all.",
        rich_help_panel=POSTERIOR,
        show_default=False,
    ),
]
Template = Annotated[
    str,
    typer.Option(
        help="How a question became the prompt: chat (the model's template), raw, math (the paper's), or a Jinja file "
        "over the record's fields. Prompts given as text, messages or ids stay as they are.",
        rich_help_panel=INPUT,
    ),
]
System = Annotated[
    str | None, typer.Option(help="System turn for the chat template.", rich_help_panel=INPUT, show_default=False)
]
Format = Annotated[
    str, typer.Option(help="Input format; auto recognises it from the first record.", rich_help_panel=INPUT)
]
QuestionField = Annotated[
    str | None,
    typer.Option(help="Field of the question (dots reach inward).", rich_help_panel=INPUT, show_default=False),
]
ResponseField = Annotated[
    str | None, typer.Option(help="Field of the response.", rich_help_panel=INPUT, show_default=False)
]
ReferenceField = Annotated[
    str | None, typer.Option(help="Field of the gold answer.", rich_help_panel=INPUT, show_default=False)
]
IdField = Annotated[str | None, typer.Option(help="Field of the id.", rich_help_panel=INPUT, show_default=False)]
Requests = Annotated[
    str | None,
    typer.Option(
        help="Input file of the batch whose output is read: it has the prompts.",
        rich_help_panel=INPUT,
        show_default=False,
    ),
]
SkipInvalid = Annotated[
    bool, typer.Option("--skip-invalid", help="Count bad records, go on, exit with 3.", rich_help_panel=INPUT)
]
Output = Annotated[
    str | None,
    typer.Option(
        "--output", "-o", help="Write a file, not standard output.", rich_help_panel=OUTPUT, show_default=False
    ),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Continue the -o file of a run that was cut off.", rich_help_panel=OUTPUT)
]
Seed = Annotated[int, typer.Option(help="Seed of all random numbers.", rich_help_panel=POSTERIOR)]
PosteriorSeed = Annotated[
    int | None,
    typer.Option("--seed", help="Seed of the draws. Default: 0.", rich_help_panel=POSTERIOR, show_default=False),
]
Scores = Annotated[
    str | None,
    typer.Option(
        help="Comma-separated scores to compute; default: all that need only the draws; all: every one; help: a table "
        "of them and what they take.",
        callback=_explain_scores,
        is_eager=True,
        rich_help_panel=OUTPUT,
        show_default=False,
    ),
]
LlmCheckLayer = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Layer for llm_check_attention and llm_check_hidden, from 1. Default: the middle one.",
        rich_help_panel=BASELINES,
        show_default=False,
    ),
]
Over = Annotated[
    OverChoice,
    typer.Option(
        help="What inside, semantic_entropy, sar, u_ecc and u_deg compare: attempts of the model to verify a response, "
        "or the samples of a question, which stand together in the input.",
        rich_help_panel=BASELINES,
    ),
]
AttemptCount = Annotated[
    int, typer.Option("--attempts", min=2, help="K, attempts to verify a response.", rich_help_panel=BASELINES)
]
AttemptTemperature = Annotated[
    float, typer.Option(min=0.0, help="Temperature of the attempts, above 0.", rich_help_panel=BASELINES)
]
AttemptTokens = Annotated[int, typer.Option(min=1, help="Tokens of an attempt, at most.", rich_help_panel=BASELINES)]
Entailment = Annotated[
    EntailmentChoice,
    typer.Option(
        help="What puts texts into one class: nli (a model, both entail each other), judge (the language model is "
        "asked), answers (equal answers or verdicts) or exact (the same text).",
        rich_help_panel=BASELINES,
    ),
]
NliModel = Annotated[
    str | None,
    typer.Option(
        help="Model of natural language inference. Default: microsoft/deberta-large-mnli.",
        rich_help_panel=BASELINES,
        show_default=False,
    ),
]
Similarity = Annotated[
    SimilarityChoice,
    typer.Option(
        help="How alike texts are: embedding (a model), nli (probability of entailment) or jaccard (shared words).",
        rich_help_panel=BASELINES,
    ),
]
SimilarityModel = Annotated[
    str | None,
    typer.Option(
        help="Sentence-embedding model or cross-encoder. Default: the embedded all-minilm-l6-v2.",
        rich_help_panel=BASELINES,
        show_default=False,
    ),
]
ShowPrompts = Annotated[
    bool,
    typer.Option(
        "--show-prompts",
        help="Print what the chosen scores would ask the model about the first response, and stop.",
        rich_help_panel=BASELINES,
    ),
]
NoTokens = Annotated[bool, typer.Option("--no-tokens", help="Leave the per-token arrays out.", rich_help_panel=OUTPUT)]
FewShot = Annotated[
    str | None,
    typer.Option(
        help="JSONL of worked examples to put before the question.", rich_help_panel=INPUT, show_default=False
    ),
]
EvaluatedScores = Annotated[
    str | None,
    typer.Option(
        "--scores",
        help="Comma-separated scores. Default: all that the records have.",
        rich_help_panel=EVALUATION,
        show_default=False,
    ),
]
LabelField = Annotated[
    str | None,
    typer.Option(
        help="Field of the label (dots reach inward): true, false or a number from 0 to 1.",
        rich_help_panel=INPUT,
        show_default=False,
    ),
]
AllowCodeExecution = Annotated[
    bool,
    typer.Option(
        "--allow-code-execution",
        help="Run the code in responses to HumanEval rows against the tests of the row: in a process of its own, in a "
        "temporary folder, with limits on time, memory and files, and where Linux permits it without network. This "
        "is no sandbox against an attacker: the code can read your files, and can forge a pass.",
        rich_help_panel=INPUT,
    ),
]
Keep = Annotated[
    str,
    typer.Option(
        metavar="PERCENT", help="Keep this part of the responses, rounded up: 10%, 100%.", rich_help_panel=SELECTION
    ),
]
