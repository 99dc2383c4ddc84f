"""Makes the lm-evaluation-harness logs beside it: ``python make_lm_eval.py FOLDER``, from the project's root.

The model is the tests' tiny random one, so that its responses are noise and all wrong but the one that must be right.
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


if __name__ == "__main__":
    main(Path(sys.argv[1]))
