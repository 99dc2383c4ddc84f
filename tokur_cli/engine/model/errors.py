"""What the libraries raise while they load a model or read a text, in one sentence for its user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tokur_cli.records.errors import TokurError

_SENTENCES = (
    # Name of a class, what its message has, what is said
    ("Exception", "No space left", "there is no room to keep {name} ({error}): set TOKUR_CACHE, for the hub's HF_HOME"),
    ("SafetensorError", "", "the weights of {name} are damaged ({error}); get them again"),
    ("GatedRepoError", "", "{name} is gated: accept its licence at https://huggingface.co/{name} and set HF_TOKEN"),
    ("RevisionNotFoundError", "", "{name} has no such revision on the Hugging Face hub"),
    ("RepositoryNotFoundError", "", "there is neither a folder {name} here nor a model of that name on the hub"),
    ("HFValidationError", "", "there is no folder and no GGUF file {name}"),
    ("LocalEntryNotFoundError", "", "there is no folder {name}, and the hub can't be reached, nor is it in its cache"),
    ("Exception", "trust_remote_code", "{name} needs its own Python code: --trust-remote-code runs a language model's"),
    (
        "OSError",
        "no file named model.safetensors",
        "{name} has no weights in *.safetensors; pickled ones can run code and aren't loaded: convert them with "
        "transformers' save_pretrained, if you trust them",
    ),
)


def first_line(error: BaseException) -> str:
    """Return an error's message up to the first line break, its type if it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def is_panic(error: BaseException) -> bool:
    """Tell whether an exception is a panic of a library in Rust (tokenizers, safetensors), no ``Exception``."""
    return type(error).__module__ == "pyo3_runtime"


@contextmanager
def tokenizing() -> Iterator[None]:
    """Make a tokenizer's panic a TokurError about the text that it was given."""
    try:
        yield
    except BaseException as error:
        if not is_panic(error):
            raise
        raise TokurError(f"the model's tokenizer fails on this text: {first_line(error)}") from error


@contextmanager
def explained_errors(name: str) -> Iterator[None]:
    """Make one sentence about a model of whatever is raised within.

    Raises:
        TokurError: the sentence.
    """
    try:
        yield
    except TokurError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        raise TokurError(_sentence(error, name)) from error


def _sentence(error: BaseException, name: str) -> str:
    """Return what is said of an error, or of the first of its causes that is known."""
    cause: BaseException | None = error
    while cause is not None:
        classes = {each.__name__ for each in type(cause).__mro__}
        for kind, text, sentence in _SENTENCES:
            if kind in classes and text in str(cause):
                return sentence.format(name=name, error=first_line(cause))
        cause = cause.__cause__ or cause.__context__
    return f"{name} can't be loaded: {first_line(error)}"
