"""CHAMP's solutions with their first wrong steps, as records that ``tokur score`` and ``tokur evaluate`` read.

pip install champ-dataset==1.0.0
python samples/steps/make_champ.py > champ.jsonl

CHAMP (Mao, Kim & Zhou 2024, MIT licence) has 540 solutions of GPT-3.5, GPT-4, GPT-4 Turbo and PaLM 2 to 270 competition
problems; in 444 of them people marked the first wrong step. Longer solutions than LONGEST are left out, to save time.
Problems come in a random order, the same each time, so that the first lines are a sample of all.
A record's ``sentences`` and ``lines`` are its steps, labelled: those before the marked text are right, those that share
more than blank with it are wrong, and of those after it nothing is known; all steps of a solution without a mistake are
right.
"""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Iterator
from importlib import resources
from typing import Any

from tokur_cli.scores.steps import step_spans

LONGEST = 2500
"""Characters."""


def labelled_steps(text: str, wrong: tuple[int, int] | None, by: str) -> Iterator[dict[str, Any]]:
    for start, end in step_spans(text, by):
        correct: bool | None = True
        if wrong is not None:
            shared = text[max(start, wrong[0]) : min(end, wrong[1])] if start < wrong[1] and wrong[0] < end else ""
            correct = False if shared.strip() else True if start < wrong[0] else None
        yield {"start": start, "end": end, "correct": correct}


def main() -> None:
    file = resources.files("champ_dataset") / "dataset_files" / "v0.json"
    problems = json.loads(file.read_text(encoding="utf-8"))["problems"]
    names = sorted(problems)
    random.Random(1).shuffle(names)
    for name in names:
        problem = problems[name]
        for condition, solution in problem["fws_annotations"].items():
            text = solution["text"]
            if len(text) > LONGEST:
                continue
            wrong = None if solution["start_idx"] is None else (solution["start_idx"], solution["end_idx"])
            system, user = problem["conversations"][condition]["messages"][:2]
            record = {
                "id": name,
                "messages": [
                    {"role": "system", "content": system["text"]},
                    {"role": "user", "content": user["text"]},
                ],
                "response": text,
                "author": solution["author"],
                "correct": wrong is None,
                **{by: list(labelled_steps(text, wrong, by)) for by in ("sentences", "lines")},
            }
            print(json.dumps(record, ensure_ascii=False))


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends it quietly
    main()
