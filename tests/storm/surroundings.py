"""Random cases where what stands around the records is hostile: options, templates, other files, models."""

from __future__ import annotations

import inspect
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_args

from typer.models import OptionInfo

from tests.storm import hostile
from tests.storm.cases import Case
from tests.storm.corpus import ALWAYS, Base, Corpus
from tests.tiny import CHAT_TEMPLATE

COMMANDS = ("score", "score", "generate", "select", "evaluate", "heatmap", "perturb")
LEFT_OUT = (
    "model",
    "name",
    "backend",
    "workers",
    "cluster",
    "gpus_per_worker",
    "plots",
    "nli_model",
    "similarity_model",
    "help",
)
"""Options that start Ray, vLLM or matplotlib, or look for models elsewhere."""
COSTLY = ("samples", "bootstrap", "repeats", "attempts", "draws", "attempt_tokens", "limit")
"""Options with which a user may ask for any amount of work."""
SMALL = ("1", "2", "3", "0", "-1", "x", "", "1.5", "2e0", "٢", "0x2", "nan")
NUMBERS = (*SMALL, "7", "64", "100", "1000000", str(2**31), str(2**63), "9" * 30, "1e400", "-0", "inf", "1e-300", " 4")
WORDS = (
    *(
        "eu",
        "eu,ll",
        "all",
        "default",
        "help",
        "eu_mean",
        "lll",
        "p_true,eu",
        "u_deg,sar",
        "10%",
        "100%",
        "0%",
        "1/3",
        "101%",
    ),
    *(
        "q_proj",
        "*",
        "q_proj,,k",
        "1:",
        ":1",
        "1:0",
        "a:b",
        "cpu",
        "cuda:0",
        "balanced",
        "meta",
        "level",
        "note.x",
        "tokur.run",
    ),
    *(
        "tokur",
        "question",
        "messages",
        "lm-eval",
        "openai-batch",
        "gsm8k",
        "auto",
        "chat",
        "raw",
        "math",
        "2,4",
        "0.1,0.2",
        ",",
    ),
)
READ = ("responses.jsonl", "few.jsonl", "template.txt", "posterior", ".", "nothing", "/dev/null", "-", "", "fifo")
WRITTEN = (
    "new.jsonl",
    "full.jsonl",
    ".",
    "",
    "/dev/full",
    "/dev/null",
    "-",
    "no/such/x",
    "a\nb",
    "\x1b[2J",
    "\udcff",
    "x" * 300,
)
WRITES = ("path", "output", "graded", "html", "svg", "folder")
FILES_OF = ("template", "few_shot", "requests", "folder")

TEMPLATES = (
    *(
        "{{ level + 1 }}",
        "{{ 1 / 0 }}",
        "{{ nothing }}",
        "{{ question.nothing.x }}",
        "{% include 'x' %}",
        "{% extends 'x' %}",
    ),
    *(
        "{% for i in range(10**9) %}x{% endfor %}",
        "{% for i in range(9**5) %}{% for j in range(9**5) %}{% endfor %}{% endfor %}",
    ),
    *(
        "{{ 'x' * 10**10 }}",
        "{{ [0] * 10**10 }}",
        "{{ 9**9**9 }}",
        "{{ question|center(10**10) }}",
        "{{ lipsum(10**6) }}",
    ),
    *(
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{{ raise_exception('\x1b[2J') }}",
        "{{ question.__class__.__mro__ }}",
    ),
    *("{{ cycler.__init__.__globals__ }}", "{{ question|attr('__class__') }}", "{{ self }}", "{{ question.format() }}"),
    *(
        "{{ '%1000000000d' % 1 }}",
        "{{ ('{:>9999999999}').format(1) }}",
        "{{ question|batch(0)|list }}",
        "",
        "\x00\x1b[2J\u202e",
    ),
    *(
        "{{ question }",
        "{% if %}",
        "{{ question|nofilter }}",
        "{{ level|int // 0 }}",
        "{{ question[10**30:] }}",
        "{{ tokur }}",
    ),
    *(
        "{% set x = namespace(v=['x']) %}{% for i in range(60) %}{% set x.v = x.v + x.v %}{% endfor %}",
        "{{ question|wordwrap(0) }}",
    ),
    *(
        "{{ 'ab'|replace('a', 'b' * 10**8)|replace('b', 'c' * 10**8) }}",
        "{{ question|tojson|indent(10**9) }}",
        "{{ loop.x }}",
    ),
)


class Surroundings:
    """Makes cases whose records are good and whose surroundings are not.

    Args:
        corpus: the good inputs.
    """

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._options = {command: list(_declared(command)) for command in set(COMMANDS)}

    def options(self, rng: random.Random) -> Case:
        """Random values of random options."""
        case, _ = self._begin(rng, "options")
        posterior = {f"posterior/{name}": data for name, data in self._corpus.posterior.items()}
        case.files |= {
            "few.jsonl": self._corpus.few_shot,
            "full.jsonl": b'{"id":"mine"}\n',
            "template.txt": b"{{ question }}",
        }
        case.files |= posterior
        case.base, case.records, case.options = None, None, list(ALWAYS[case.command])
        if rng.random() < 0.8:
            case.options += {"score": ["--similarity", "jaccard", "--entailment", "judge"]}.get(case.command, [])
        for option in rng.sample(self._options[case.command], rng.choice((1, 1, 2, 3, 5))):
            case.options += self._filled(rng, option, case)
        shown = {"table", "latex", "help"} & set(case.options)
        case.text = case.command == "heatmap" or bool(shown)
        case.mixed = case.text and bool({"-", "--passthrough"} & set(case.options))
        return case

    def templates(self, rng: random.Random) -> Case:
        """A template that cannot be filled, does not end, or wants out."""
        case, _ = self._begin(rng, "templates", ("score", "generate"))
        _leave_one(case)  # each that does not end takes its time
        text = rng.choice(TEMPLATES) if rng.random() < 0.7 else ""
        data = text.encode() or hostile.mutate_bytes(
            rng, b"{% if level %}{{ level + 1 }}{% endif %}{{ question|upper }}"
        )
        case.files["template.txt"] = data
        case.base = None
        case.options += ["--template", "template.txt"]
        case.needs_place = True
        return case

    def companions(self, rng: random.Random) -> Case:
        """Worked examples or a batch's requests that are damaged."""
        if rng.random() < 0.5:
            case, _ = self._begin(rng, "companions", ("score", "generate"))
            case.files["few.jsonl"] = hostile.mutate_lines(rng, self._corpus.few_shot)
            case.options += ["--few-shot", "few.jsonl"]
        else:
            base = rng.choice([base for base in self._corpus.bases if base.companions])
            case = Case("companions", "score", [*base.options, *ALWAYS["score"]], {base.file: base.data}, base.file)
            case.files |= {name: hostile.mutate_lines(rng, data) for name, data in base.companions.items()}
            case.options += ["--skip-invalid"] if rng.random() < 0.5 else []
        case.base = None
        return case

    def posteriors(self, rng: random.Random) -> Case:
        """A posterior's folder, one of whose files is damaged."""
        case, _ = self._begin(rng, "posteriors", ("score", "score", "score", "generate"))
        files = dict(self._corpus.posterior)
        name = rng.choice(("posterior.json", "posterior.json", "basis.safetensors"))
        if name.endswith(".json") and rng.random() < 0.8:
            files[name] = hostile.mutate_json(rng, files[name].decode()).encode("utf-8", "surrogatepass")
        else:
            files[name] = hostile.mutate_bytes(rng, files[name])
        if rng.random() < 0.05:
            del files[name]
        elif name != "posterior.json" and files[name] != self._corpus.posterior[name]:
            case.codes = (1, 2)
        case.files |= {f"posterior/{file}": data for file, data in files.items()}
        case.base = None
        case.options += ["--posterior", "posterior", *(["--score"] if case.command == "generate" else [])]
        case.options = [option for option in case.options if option not in ("--draws", "2")]  # it has its own
        return case

    def collisions(self, rng: random.Random) -> Case:
        """An output that is an input, or a file with something in it: refused, and nothing is touched."""
        case, base = self._begin(rng, "collisions", ("score", "generate", "select", "evaluate", "heatmap"))
        flags = {"evaluate": ("-o", "--graded"), "heatmap": ("-o", "--html", "--svg")}.get(case.command, ("-o",))
        flag = rng.choice(flags)
        case.files |= {"few.jsonl": self._corpus.few_shot, "template.txt": b"{{ question }}"}
        target = base.file
        if case.command in ("score", "generate") and rng.random() < 0.5:
            target, option = rng.choice((("few.jsonl", "--few-shot"), ("template.txt", "--template")))
            case.options += [option, target]
        elif case.command != "evaluate" and flag == "-o" and rng.random() < 0.4:
            target = "finished.jsonl"
            case.files[target] = b'{"id":"mine"}\n'
        chance = rng.random()
        if chance < 0.3:
            case.links.append(("link.jsonl", target, chance < 0.15))
            target = "link.jsonl"
        case.options += [flag, target if chance < 0.8 else f"./{target}"]
        case.base, case.records, case.codes = None, None, (1, 2)
        return case

    def models(self, rng: random.Random) -> Case:
        """A model's folder, one of whose files is damaged."""
        case, _ = self._begin(rng, "models", ("score", "generate"))
        _leave_one(case)
        files = dict(self._corpus.model_files)
        name = rng.choice(
            ("config.json", "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "chat")
        )
        if name == "chat":
            text = rng.choice(TEMPLATES) if rng.random() < 0.7 else CHAT_TEMPLATE.replace("message", "massage", 1)
            files["chat_template.jinja"] = text.encode()
        elif name.endswith("config.json") or (name == "tokenizer.json" and rng.random() < 0.5):
            files[name] = hostile.mutate_json(rng, files[name].decode()).encode("utf-8", "surrogatepass")
        else:
            files[name] = hostile.mutate_bytes(rng, files[name])
        case.files |= {f"model/{file}": data for file, data in files.items()}
        case.base = None
        case.options += ["-m", "./model"]
        return case

    def _begin(self, rng: random.Random, kind: str, commands: tuple[str, ...] = COMMANDS) -> tuple[Case, Base]:
        """Return a case of good records, and its input."""
        command = rng.choice(commands)
        own = {"generate": self._corpus.questions, "score": self._corpus.responses}.get(command, self._corpus.scored)
        case = Case(kind, command, list(ALWAYS[command]), {own.file: own.data}, own.file)
        case.stdin = rng.choice(("path", "pipe", "file")) if kind != "collisions" else rng.choice(("path", "file"))
        case.text = command == "heatmap"
        if rng.random() < 0.5:
            case.options.append("--skip-invalid")
        return case, own

    def _filled(self, rng: random.Random, option: Option, case: Case) -> list[str]:
        """Return an option with a value, most often one of its kind."""
        flag = rng.choice(option.flags)
        if option.kind is bool:
            return [flag]
        if (option.name in WRITES and option.name != "folder") or "-o" in option.flags:
            value = rng.choice(WRITTEN)
            if option.name in ("html", "svg") and value == "full.jsonl":  # a picture may be made again
                value = f"new.{option.name}"
            case.made += () if value in ("", ".", "-", "full.jsonl") or "/" in value else (value,)
            return [flag, value]
        if rng.random() < 0.1:
            return [flag, rng.choice([text for text in hostile.TEXTS if "\x00" not in text])]
        if option.choices:
            return [flag, rng.choice(option.choices)]
        if option.name in FILES_OF:
            return [flag, rng.choice(READ)]
        if option.kind in (int, float):
            return [flag, rng.choice(SMALL if option.name in COSTLY else NUMBERS)]
        return [flag, rng.choice((*WORDS, *NUMBERS))]


def _leave_one(case: Case) -> None:
    """Leave one record in the input."""
    for name, data in case.files.items():
        if name == case.input:
            case.files[name] = data[: data.index(b"\n") + 1]


@dataclass(frozen=True)
class Option:
    """An option as the command line declares it: what Python calls it, its flags, its type, its choices."""

    name: str
    flags: tuple[str, ...]
    kind: type
    choices: tuple[str, ...]


def _declared(command: str) -> Iterator[Option]:
    """Yield a command's options."""
    from tokur_cli.app import app

    (callback,) = [entry.callback for entry in app.registered_commands if entry.callback.__name__ == command]
    for name, parameter in inspect.signature(callback).parameters.items():
        hint, *marks = get_args(parameter.annotation) or (parameter.annotation,)
        for mark in marks:
            if isinstance(mark, OptionInfo) and name not in LEFT_OUT:
                kinds = [kind for kind in (bool, int, float) if kind is hint or kind in get_args(hint)]
                choices = [choice for part in (hint, *get_args(hint)) for choice in get_args(part)]
                words = tuple(choice for choice in choices if isinstance(choice, str))
                flags = tuple(flag for flag in (mark.default, *(mark.param_decls or ())) if isinstance(flag, str))
                flags = flags or (f"--{name.replace('_', '-')}",)
                yield Option(name, flags, kinds[0] if kinds else str, words)
