"""Makes the Inspect logs beside it, offline: ``python make_inspect.py FOLDER``; what made them stands in README.md."""

import sys
from pathlib import Path
from types import SimpleNamespace

import tiktoken
from inspect_ai import Task, eval, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageAssistant, ContentReasoning, ContentText, ModelOutput, get_model
from inspect_ai.scorer import NOANSWER, Score, accuracy, f1, includes, match, mean, model_graded_fact, scorer
from inspect_ai.solver import generate, system_message, use_tools
from inspect_ai.tool import tool

# The mock model counts its tokens with a vocabulary from the network; words will do
tiktoken.get_encoding = lambda name: SimpleNamespace(encode=lambda text, **options: text.split())


def outputs(*texts):
    return [ModelOutput.from_content("mockllm/model", text) for text in texts]


@scorer(metrics=[accuracy()])
def gives_number():
    """Yes or no, as a boolean; no answer where there is no number at all."""

    async def score(state, target):
        has_digit = any(character.isdigit() for character in state.output.completion)
        return Score(value=state.output.completion.strip(".").isdigit() if has_digit else NOANSWER)

    return score


@scorer(metrics={"short": [mean()], "polite": [mean()]})
def style():
    """Two values at once."""

    async def score(state, target):
        text = state.output.completion
        return Score(value={"short": float(len(text) < 12), "polite": float("please" in text)})

    return score


@scorer(metrics=[accuracy()])
def breaks():
    """A scorer that fails for one sample."""

    async def score(state, target):
        if state.sample_id == "sky":
            raise RuntimeError("the grader is out of reach")
        return Score(value="C")

    return score


@tool
def add():
    async def execute(x: int, y: int):
        """Add two numbers.

        Args:
            x: The first number.
            y: The second number.
        """
        return x + y

    return execute


SUM = Sample(id="sum", input="What is 6 times 7?", target="42")
SKY = Sample(id="sky", input="What colour is the sky?", target=["blue", "azure"])
SEA = Sample(id="sea", input="What colour is the sea?", target=["blue", "green"])


@task
def included():
    return Task([SUM, SKY, SEA], scorer=includes())


@task
def graded():
    judge = get_model(
        "mockllm/model",
        custom_outputs=outputs("GRADE: C", "It is nearly right.\n\nGRADE: P", "GRADE: I", "I cannot tell."),
    )
    samples = [SUM, SKY, SEA, Sample(id="sand", input="What colour is sand?", target="yellow")]
    return Task(samples, scorer=model_graded_fact(model=judge, partial_credit=True))


@task
def several():
    return Task([SUM, SKY, SEA], scorer=[includes(), f1(), gives_number(), style()])


@task
def failing():
    return Task([SUM, SKY], scorer=breaks())


@task
def reasoning():
    return Task([SUM, SKY], scorer=match(location="any"))


@task
def tools():
    return Task([SUM], solver=[system_message("You can add."), use_tools(add()), generate()], scorer=includes())


def thinking(thought, text):
    message = ChatMessageAssistant(content=[ContentReasoning(reasoning=thought), ContentText(text=text)])
    return ModelOutput.from_message(message)


LOGS = {
    included: outputs("It is 42.", "Azure, of course.", "Red."),
    graded: outputs("It is 42.", "Bluish.", "Red.", "Yellow."),
    several: outputs("42", "It is blue, 100 %.", "Red."),
    failing: outputs("42", "Blue."),
    reasoning: [thinking("6 times 7 is 42.", "It is 42."), thinking("Rayleigh scattering.\n\nSo blue.", "Green.")],
    tools: [
        ModelOutput.for_tool_call("mockllm/model", "add", {"x": 21, "y": 21}, tool_call_id="call-1"),
        *outputs("It is 42."),
    ],
}


def main(folder: Path) -> None:
    for make, answers in LOGS.items():
        model = get_model("mockllm/model", custom_outputs=answers, memoize=False)
        (log,) = eval(
            make(),
            model=model,
            log_dir=str(folder / "logs"),
            max_samples=1,
            epochs=1,
            fail_on_error=False,
            display="none",
            log_model_api=False,
        )
        name = f"inspect_{make.__name__}"
        (folder / f"{name}.eval").write_bytes(Path(log.location).read_bytes())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
