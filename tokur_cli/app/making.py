"""The options of the commands that run a model: generate and score."""

from __future__ import annotations

from typing import Annotated

import typer

from tokur_cli.app import options as opt
from tokur_cli.app.inputs import input_path, sigma_of
from tokur_cli.commands.reporting import reporting
from tokur_cli.commands.starting import model_imports


def generate(
    questions: Annotated[
        str | None,
        typer.Argument(
            help="JSONL of questions, plain, gzip or zstd; - or nothing for standard input.", show_default=False
        ),
    ] = None,
    model: opt.Model = None,
    samples: Annotated[
        int, typer.Option("--samples", "-n", min=1, help="N, responses a question.", rich_help_panel=opt.DECODING)
    ] = 1,
    temperature: Annotated[
        float, typer.Option(min=0.0, help="0 takes the most likely token.", rich_help_panel=opt.DECODING)
    ] = 0.0,
    top_p: Annotated[
        float,
        typer.Option(min=0.0, max=1.0, help="Most likely tokens that make up this much.", rich_help_panel=opt.DECODING),
    ] = 1.0,
    top_k: Annotated[
        int, typer.Option(min=0, help="This many most likely tokens; 0 for all.", rich_help_panel=opt.DECODING)
    ] = 0,
    min_p: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=1.0,
            help="Tokens with this share of the likeliest's probability.",
            rich_help_panel=opt.DECODING,
        ),
    ] = 0.0,
    max_new_tokens: Annotated[
        int, typer.Option(min=1, help="Tokens of a response, at most.", rich_help_panel=opt.DECODING)
    ] = 512,
    stop: Annotated[
        list[str] | None,
        typer.Option(
            help="Text that ends a response; may be given several times.",
            rich_help_panel=opt.DECODING,
            show_default=False,
        ),
    ] = None,
    seed: opt.Seed = 0,
    backend: Annotated[
        opt.BackendChoice,
        typer.Option(help="vllm: stock vLLM, where it is installed.", rich_help_panel=opt.DECODING),
    ] = opt.BackendChoice.transformers,
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Responses at once; halved when memory does not suffice. Default: by device.",
            rich_help_panel=opt.DECODING,
            show_default=False,
        ),
    ] = None,
    max_memory: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            help="GiB for keys and values. Default: half of what is free.",
            rich_help_panel=opt.DECODING,
            show_default=False,
        ),
    ] = None,
    score: Annotated[
        bool, typer.Option("--score", help="Score the responses in the same run.", rich_help_panel=opt.POSTERIOR)
    ] = False,
    posterior: opt.PosteriorFolder = None,
    draws: opt.DrawCount = None,
    rank: opt.Rank = None,
    sigma: opt.Sigma = None,
    targets: opt.Targets = None,
    layers: opt.Layers = None,
    sampling: opt.Sampling = opt.SamplingChoice.stepwise,
    estimator: opt.Estimator = opt.EstimatorChoice.paper,
    scores: opt.Scores = None,
    llm_check_layer: opt.LlmCheckLayer = None,
    over: opt.Over = opt.OverChoice.attempts,
    attempts: opt.AttemptCount = 10,
    attempt_temperature: opt.AttemptTemperature = 0.5,
    attempt_tokens: opt.AttemptTokens = 64,
    entailment: opt.Entailment = opt.EntailmentChoice.nli,
    nli_model: opt.NliModel = None,
    similarity: opt.Similarity = opt.SimilarityChoice.embedding,
    similarity_model: opt.SimilarityModel = None,
    no_tokens: opt.NoTokens = False,
    batch_tokens: opt.BatchTokens = None,
    output: opt.Output = None,
    resume: opt.Resume = False,
    template: opt.Template = "chat",
    system: opt.System = None,
    few_shot: opt.FewShot = None,
    format: opt.Format = "auto",
    question_field: opt.QuestionField = None,
    reference_field: opt.ReferenceField = None,
    id_field: opt.IdField = None,
    skip_invalid: opt.SkipInvalid = False,
    dtype: opt.Dtype = opt.DtypeChoice.auto,
    device_map: opt.DeviceMap = "auto",
    revision: opt.Revision = None,
    trust_remote_code: opt.TrustRemoteCode = False,
) -> None:
    """Generate N responses to each question, with the mean weights, as records that score takes as they are.

    A response depends on the seed, the question's id and its sample number alone: not on the batch, the order of the
    questions or N.
    """
    with reporting("generate"):
        source = input_path(questions)
        with model_imports():
            from tokur_cli.commands import arguments
            from tokur_cli.commands.generate import generate as run
            from tokur_cli.records.mapping import FieldMapping

        baselines = arguments.BaselineOptions(
            llm_check_layer=llm_check_layer,
            over=over.value,
            attempts=attempts,
            attempt_temperature=attempt_temperature,
            attempt_tokens=attempt_tokens,
            entailment=entailment.value,
            nli_model=nli_model,
            similarity=similarity.value,
            similarity_model=similarity_model,
            seed=seed,
        )
        own_seed = None if posterior else seed  # a kept posterior brings its seed; ours is of the samples then
        drawn_from = arguments.PosteriorOptions(posterior, draws, rank, sigma_of(sigma), targets, layers, own_seed)
        scoring = arguments.ScoringOptions(
            drawn_from, sampling.value, estimator.value, scores, not no_tokens, batch_tokens
        )
        run(
            arguments.InputOptions(
                source, format, FieldMapping(question_field, None, reference_field, id_field), None, skip_invalid
            ),
            arguments.ModelOptions(model, revision, dtype.value, device_map, trust_remote_code),
            arguments.PromptOptions(template, system, few_shot),
            arguments.DecodingOptions(
                samples=samples,
                temperature=temperature,
                top_p=top_p,
                top_k=top_k,
                min_p=min_p,
                max_new_tokens=max_new_tokens,
                stop=tuple(stop or ()),
                seed=seed,
                backend=backend.value,
                batch_size=batch_size,
                max_memory_gib=max_memory,
            ),
            scoring if score else None,
            baselines,
            arguments.OutputOptions(output, resume),
        )


def score(
    responses: Annotated[
        str | None,
        typer.Argument(
            help="JSONL of responses, plain, gzip or zstd; - or nothing for standard input.", show_default=False
        ),
    ] = None,
    model: opt.Model = None,
    posterior: opt.PosteriorFolder = None,
    draws: opt.DrawCount = None,
    rank: opt.Rank = None,
    sigma: opt.Sigma = None,
    targets: opt.Targets = None,
    layers: opt.Layers = None,
    seed: opt.PosteriorSeed = None,
    sampling: opt.Sampling = opt.SamplingChoice.stepwise,
    estimator: opt.Estimator = opt.EstimatorChoice.paper,
    scores: opt.Scores = None,
    llm_check_layer: opt.LlmCheckLayer = None,
    over: opt.Over = opt.OverChoice.attempts,
    attempts: opt.AttemptCount = 10,
    attempt_temperature: opt.AttemptTemperature = 0.5,
    attempt_tokens: opt.AttemptTokens = 64,
    entailment: opt.Entailment = opt.EntailmentChoice.nli,
    nli_model: opt.NliModel = None,
    similarity: opt.Similarity = opt.SimilarityChoice.embedding,
    similarity_model: opt.SimilarityModel = None,
    show_prompts: opt.ShowPrompts = False,
    no_tokens: opt.NoTokens = False,
    output: opt.Output = None,
    resume: opt.Resume = False,
    template: opt.Template = "chat",
    system: opt.System = None,
    few_shot: opt.FewShot = None,
    format: opt.Format = "auto",
    question_field: opt.QuestionField = None,
    response_field: opt.ResponseField = None,
    reference_field: opt.ReferenceField = None,
    id_field: opt.IdField = None,
    requests: opt.Requests = None,
    skip_invalid: opt.SkipInvalid = False,
    dtype: opt.Dtype = opt.DtypeChoice.auto,
    device_map: opt.DeviceMap = "auto",
    revision: opt.Revision = None,
    trust_remote_code: opt.TrustRemoteCode = False,
    batch_tokens: opt.BatchTokens = None,
) -> None:
    """Score responses: token-level total, aleatoric and epistemic uncertainty, and scores of whole responses."""
    with reporting("score"):
        source = input_path(responses)
        with model_imports():
            from tokur_cli.commands import arguments
            from tokur_cli.commands.score import score as run
            from tokur_cli.records.mapping import FieldMapping

        mapping = FieldMapping(question_field, response_field, reference_field, id_field)
        drawn_from = arguments.PosteriorOptions(posterior, draws, rank, sigma_of(sigma), targets, layers, seed)
        baselines = arguments.BaselineOptions(
            llm_check_layer=llm_check_layer,
            over=over.value,
            attempts=attempts,
            attempt_temperature=attempt_temperature,
            attempt_tokens=attempt_tokens,
            entailment=entailment.value,
            nli_model=nli_model,
            similarity=similarity.value,
            similarity_model=similarity_model,
            seed=seed or 0,
        )
        reading = arguments.InputOptions(source, format, mapping, requests, skip_invalid)
        loading = arguments.ModelOptions(model, revision, dtype.value, device_map, trust_remote_code)
        if show_prompts:
            from tokur_cli.commands.show_prompts import show_prompts as show

            show(reading, loading, scores, baselines)
            return
        run(
            reading,
            loading,
            arguments.PromptOptions(template, system, few_shot),
            arguments.ScoringOptions(drawn_from, sampling.value, estimator.value, scores, not no_tokens, batch_tokens),
            baselines,
            arguments.OutputOptions(output, resume),
        )
