"""The commands: what each takes, as groups of options, and what its help says; ``tokur_cli.commands`` does the work."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Annotated

import typer

from tokur_cli.app.groups import Without
from tokur_cli.commands.options.evaluate import EvaluationOptions, EvaluationOutput, FitOptions
from tokur_cli.commands.options.guided import GuidedOptions
from tokur_cli.commands.options.heatmap import ChoiceOptions, PictureOptions
from tokur_cli.commands.options.labels import LabelOptions
from tokur_cli.commands.options.marks import Excludes, Needs, Reads
from tokur_cli.commands.options.model import BackendOptions, DecodingOptions, ModelOptions, PromptOptions
from tokur_cli.commands.options.perturb import PerturbOptions
from tokur_cli.commands.options.scoring import BaselineOptions, PosteriorOptions, SamplingOptions, ScoringOptions
from tokur_cli.commands.options.select import SelectOptions
from tokur_cli.commands.options.streams import InputOptions, RecordOutput, ResumableOutput
from tokur_cli.commands.options.workers import WorkerOptions
from tokur_cli.records.errors import UsageError
from tokur_cli.records.streams import STDIN

_FORMS = (
    "JSON lines; - or nothing: standard input. Also .csv, .tsv, .parquet, .arrow, compressed files, hf:NAME:SPLIT, a "
    "saved data set, gym:TASK?size=N."
)
_INPUT = Reads(lambda given: [given] if isinstance(given, str) else given or [STDIN])
Records = Annotated[str | None, _INPUT, typer.Argument(help=_FORMS)]
ScoredFiles = Annotated[list[str] | None, _INPUT, typer.Argument(help=f"{_FORMS} Several are runs: mean ± deviation.")]
_OF_MODEL = Excludes("--from-logprobs")
_BESIDE_KEPT = ("folder", "draws")
_OF_DRAWS = ("batch_tokens", "sampling", "estimator")
_BESIDE_GUIDE = Excludes("--guide", but=(*_OF_DRAWS, "scores", "calibration", "no_tokens", "steps"))
_OF_SCORES = Needs("--score", "--guide", but=("seed",))  # which is that of the samples, too
_OF_TRANSFORMERS = Excludes("--backend=vllm", but=("name", "dtype", "trust_remote_code"))
_MAPPING = ("format", "question_field", "response_field", "reference_field", "id_field", "requests", "limit")


def perturb(
    *,
    responses: Annotated[Records, Needs("--sweep", "--calibrate")] = None,
    model: ModelOptions,
    posterior: Annotated[PosteriorOptions, Without(("folder",))],
    options: PerturbOptions,
    sampling: SamplingOptions,
    labels: Annotated[LabelOptions, Without(("allow_code_execution", "unsafe_code_execution"))],
    prompts: Annotated[PromptOptions, Needs("--sweep", "--calibrate")],
    source: Annotated[InputOptions, Needs("--sweep", "--calibrate")],
) -> None:
    """Make the weight posterior: look at it, find its strength, keep it. Its draws also serve as adapters.

    Writes a record for each perturbed matrix; with --sweep or --calibrate, for each strength that was tried.
    """
    from tokur_cli.commands.perturb.command import perturb as run
    from tokur_cli.commands.shared.prompts import PromptForm

    scoring = ScoringOptions(**vars(sampling), posterior=posterior)
    source = source.at(responses) if options.tries else source
    run(model, PromptForm(prompts), scoring, source, options, labels)


def generate(
    *,
    questions: Records = None,
    question: Annotated[
        str | None,
        typer.Option("--question", metavar="TEXT", help="Ask this, in place of a file.", rich_help_panel="Input"),
        Excludes("questions"),
    ] = None,
    model: Annotated[ModelOptions, _OF_TRANSFORMERS],
    engine: BackendOptions,
    decoding: DecodingOptions,
    guided: Annotated[GuidedOptions, Needs("--guide", but=("guide",))],
    score: Annotated[
        bool,
        typer.Option("--score", metavar="", help="Score the responses in the same run.", rich_help_panel="Posterior"),
    ] = False,
    posterior: Annotated[PosteriorOptions, Excludes("--posterior", but=(*_BESIDE_KEPT, "seed")), _OF_SCORES],
    scoring: Annotated[ScoringOptions, _BESIDE_GUIDE, Needs("--score", but=_OF_DRAWS), _OF_SCORES],
    baselines: Annotated[BaselineOptions, Needs("--score")],
    workers: WorkerOptions,
    target: Annotated[ResumableOutput, Excludes("--over=samples", but=("path", "force", "dry_run"))],
    prompts: PromptOptions,
    source: Annotated[InputOptions, Without(("response_field", "requests"))],
) -> None:
    """Generate N responses to each question. Score takes the records as they are.

    A response depends on the seed, the question's id and its sample number alone, up to rounding, which in bfloat16
    changes many sampled responses with the batch. With --guide it depends on N, too.
    """
    if questions and len(questions.split()) > 1 and not os.path.exists(questions):
        raise UsageError(f'there is no file "{questions}": to ask this, put --question before it')
    source = source.at(questions) if question is None else replace(source, asked=question)
    from tokur_cli.commands.generate.command import GenerateWork
    from tokur_cli.commands.session.run import run

    work = GenerateWork.of(model, prompts, engine, decoding, guided, posterior, scoring, baselines, score)
    run(source, target, workers, work)


def score(
    *,
    responses: Records = None,
    model: Annotated[ModelOptions, _OF_MODEL, _OF_TRANSFORMERS],
    engine: Annotated[BackendOptions, _OF_MODEL],
    posterior: Annotated[PosteriorOptions, _OF_MODEL, Excludes("--posterior", but=_BESIDE_KEPT)],
    scoring: Annotated[ScoringOptions, Excludes("--from-logprobs", but=("scores", "no_tokens", "alternatives"))],
    baselines: Annotated[BaselineOptions, _OF_MODEL],
    workers: Annotated[WorkerOptions, _OF_MODEL],
    target: ResumableOutput,
    prompts: Annotated[PromptOptions, _OF_MODEL],
    source: InputOptions,
    from_logprobs: Annotated[
        bool,
        typer.Option(
            "--from-logprobs",
            metavar="",
            help="By the log-probabilities in the log, without a model.",
            rich_help_panel="Input",
        ),
    ] = False,
) -> None:
    """Score responses: how unsure is the model of each token? Adds total, aleatoric and epistemic uncertainty.

    A record gains values of each token and scores of the response.
    """
    source = source.at(responses)
    if from_logprobs and not target.dry_run:
        from tokur_cli.commands.score.logged import score_logged

        score_logged(source, scoring, target)
        return
    from tokur_cli.commands.score.work import ScoreWork
    from tokur_cli.commands.session.run import run

    work = None if from_logprobs else ScoreWork.of(model, prompts, engine, posterior, scoring, baselines)
    run(source, target, workers, work)


def select(
    *, scored: Records = None, options: SelectOptions, labels: LabelOptions, target: RecordOutput, source: InputOptions
) -> None:
    """Choose the best of N answers: the most confident ones vote. Writes one response for each question.

    Responses with the same prompt and reference are samples of one question. Equal answers (1/2, 0.5) vote together; a
    missing one never wins while another is there. Ties go to the more confident response, then to the lower sample.
    With references, accuracies follow on standard error.
    """
    from tokur_cli.commands.select import select as run

    run(source.at(scored), options, labels, target)


def evaluate(
    *,
    scored: ScoredFiles = None,
    options: Annotated[EvaluationOptions, Excludes("--certify", but=("difficulty_from", "repeats", "keep", "stop_at"))],
    labels: LabelOptions,
    fit: FitOptions,
    target: EvaluationOutput,
    source: InputOptions,
) -> None:
    """Evaluate scores: how well does each rank correct above incorrect? How much does voting by it gain?

    A record's label is its "correct", "is_correct" or "quality" (0 to 1), else what the program that wrote the log
    says (Inspect, lm-eval), else its final answer against "reference". {metrics}

    With --level step, spans of responses are evaluated: sum, mean, the least certain token and the mean of the five
    least certain of every quantity. {span_metrics}
    """
    paths = scored or [source.at(None).path]
    from tokur_cli.commands.evaluate.command import evaluate as run

    run(paths, source, options, labels, fit, target)


def heatmap(
    *,
    scored: Records = None,
    picture: PictureOptions,
    choice: ChoiceOptions,
    labels: LabelOptions,
    source: Annotated[InputOptions, Without(_MAPPING)],
) -> None:
    """Colour the tokens of scored responses by their uncertainty. In the terminal, a page or a figure.

    One scale holds for all responses of the input, whichever of them are shown.
    """
    from tokur_cli.commands.heatmap.command import heatmap as run

    run(source.at(scored), picture, choice, labels)
