"""Makes the lm-evaluation-harness logs beside it: ``python make_lm_eval.py FOLDER``, from the project's root.

The model is the tests' tiny random one, so that its responses are noise and all wrong but the one that must be right.
``lm_eval_filters`` has the filters of the harness's task gsm8k and responses that are given; ``…_results.json`` is what
the harness computed of them.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from tests.tiny import tiny_model_folder

TASK = """\
task: tiny_sums
dataset_path: json
dataset_kwargs:
  data_files:
    test: DOCUMENTS
test_split: test
output_type: generate_until
doc_to_text: "Question: {{question}}\\nAnswer:"
doc_to_target: "{{answer}}"
generation_kwargs:
  until: ["\\n"]
  max_gen_toks: 6
  do_sample: false
filter_list:
  - name: strict-match
    filter:
      - function: regex
        regex_pattern: "(-?[0-9]+)"
      - function: take_first
  - name: any-text
    filter:
      - function: regex
        regex_pattern: "(.+)"
      - function: take_first
metric_list:
  - metric: exact_match
    aggregation: mean
    higher_is_better: true
"""

GSM8K = (
    TASK[: TASK.index("filter_list")].replace("tiny_sums", "filters")
    + """\
filter_list:
  - name: strict-match
    filter:
      - function: regex
        regex_pattern: "#### (\\\\-?[0-9\\\\.\\\\,]+)"
      - function: take_first
  - name: flexible-extract
    filter:
      - function: regex
        group_select: -1
        regex_pattern: "(-?[$0-9.,]{2,})|(-?[0-9]+)"
      - function: take_first
"""
    + TASK[TASK.index("metric_list") :]
)
RESPONSES = {  # by the question; none has the mark that the first filter wants
    "What is 20 + 22?": ("42", "20 and 22 are 42"),
    "What is 9 + 9?": ("18", "It is 18"),
    "What is 7 + 8?": ("15", "7 and 8 are 16"),
    "What is 3 + 4?": ("7", "I take 3 and 4, so 9"),
    "What is 50 + 1?": ("51", "fifty-one"),
}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    model = tiny_model_folder(folder)
    documents = folder / "documents.jsonl"
    rows = [{"question": f"What is {number} + 1?", "answer": str(number + 1)} for number in (1, 2)]
    rows.append({"question": "Which answer has no number?", "answer": "[invalid]"})  # what its filter makes of noise
    documents.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    tasks = folder / "tasks"
    tasks.mkdir(exist_ok=True)
    (tasks / "tiny_sums.yaml").write_text(TASK.replace("DOCUMENTS", str(documents)), encoding="utf-8")
    for name, options in (("lm_eval_samples", []), ("lm_eval_chat", ["--apply_chat_template"])):
        out = folder / name
        shutil.rmtree(out, ignore_errors=True)
        command = [
            sys.executable,
            "-m",
            "lm_eval",
            "--model",
            "hf",
            "--model_args",
            f"pretrained={model},dtype=float32",
        ]
        command += ["--tasks", "tiny_sums", "--include_path", str(tasks), "--device", "cpu", "--log_samples"]
        subprocess.run([*command, "--output_path", str(out), *options], check=True)
        (samples,) = out.rglob("samples_*.jsonl")
        shutil.copy(samples, folder / f"{name}.jsonl")
    _make_filters(folder, tasks)


def _make_filters(folder: Path, tasks: Path) -> None:
    from lm_eval import simple_evaluate
    from lm_eval.api.model import LM
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    class Parrot(LM):
        def generate_until(self, requests, disable_tqdm=False):
            return [RESPONSES[request.args[0].splitlines()[0].removeprefix("Question: ")][1] for request in requests]

        def loglikelihood(self, requests, disable_tqdm=False):
            raise NotImplementedError

        loglikelihood_rolling = loglikelihood

    documents = folder / "filters_documents.jsonl"
    rows = [{"question": question, "answer": answer} for question, (answer, _) in RESPONSES.items()]
    documents.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (tasks / "filters.yaml").write_text(GSM8K.replace("DOCUMENTS", str(documents)), encoding="utf-8")
    out = folder / "filters"
    shutil.rmtree(out, ignore_errors=True)
    manager = TaskManager(include_path=str(tasks))
    results = simple_evaluate(Parrot(), tasks=["filters"], task_manager=manager, log_samples=True, bootstrap_iters=0)
    samples = results.pop("samples")
    tracker = EvaluationTracker(output_path=str(out))
    tracker.save_results_aggregated(results=results, samples=samples)
    tracker.save_results_samples(task_name="filters", samples=samples["filters"])
    (written,) = out.rglob("samples_*.jsonl")
    shutil.copy(written, folder / "lm_eval_filters.jsonl")
    (folder / "lm_eval_filters_results.json").write_text(json.dumps(results["results"], indent=2) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
