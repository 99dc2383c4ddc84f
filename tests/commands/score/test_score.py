import json
import math
import random

import numpy as np
import pytest

from tests.helpers import parsed, records, write_lines
from tests.tiny import CHAT_TEMPLATE
from tokur_cli.commands.shared.digests import content_digest, model_digest
from tokur_cli.scores.catalogue import CATALOGUE


@pytest.fixture
def responses(tmp_path):
    return write_lines(tmp_path / "responses.jsonl", records(20))


def test_scored_records_keep_their_fields_and_order_and_add_one_key(run_tokur, tiny_folder, responses):
    code, out, err = run_tokur("score", responses, "-m", tiny_folder)
    assert (code, err) == (0, "")
    for line, scored, given in zip(out.splitlines(), parsed(out), records(20), strict=True):
        assert line.startswith(json.dumps(given, separators=(",", ":"))[:-1])
        assert {name: value for name, value in scored.items() if name != "tokur"} == given
        tokur = scored["tokur"]
        assert list(tokur) == ["schema", "tokens", "scores", "run"]
        tokens = tokur["tokens"]
        assert list(tokens) == [
            "offsets", "logprob", "entropy", "tu", "au", "eu", "self_certainty", "deepconf"
        ]  # fmt: skip
        assert {len(values) for values in tokens.values()} == {len(given["response"])}
        assert "".join(given["response"][start:end] for start, end in tokens["offsets"]) == given["response"]
        assert list(tokur["scores"]) == [name for name, score in CATALOGUE.items() if score.default]
        assert tokur["scores"]["eu"] == pytest.approx(math.fsum(tokens["eu"]), rel=1e-6)
        assert tokur["scores"]["ll"] == pytest.approx(np.mean(tokens["logprob"]), rel=1e-6)
        assert tokur["scores"]["neg_length"] == -len(given["response"])
        assert tokur["run"] == {
            "model": str(tiny_folder), "revision": None, "dtype": tokur["run"]["dtype"], "rank": 8, "sigma": 0.1,
            "draws": 2, "sampling": "stepwise", "estimator": "paper",
            "targets": "q_proj,k_proj", "layers": None, "seed": 0,
            "version": tokur["run"]["version"], "model_digest": model_digest(str(tiny_folder)),
            "prompts": {
                "template": "chat", "system": None, "few_shot": None,
                "chat_template_digest": content_digest(CHAT_TEMPLATE),
            },
        }  # fmt: skip


def test_scores_are_chosen_by_name_and_draws_made_only_if_needed(run_tokur, tiny_folder, responses):
    code, out, _ = run_tokur("score", responses, "-m", tiny_folder, "--scores", "pe,ll")
    assert code == 0
    tokur = parsed(out)[0]["tokur"]
    assert list(tokur["scores"]) == ["ll", "pe"]
    assert "eu" not in tokur["tokens"]
    assert tokur["run"]["draws"] == 0
    assert tokur["run"]["sigma"] is None


@pytest.mark.parametrize("earlier", [None, [], "eu"])
def test_scores_of_an_earlier_run_that_are_not_an_object_are_replaced(
    run_tokur, tiny_folder, responses, tmp_path, earlier
):
    _, first, _ = run_tokur("score", responses, "-m", tiny_folder)
    scored = parsed(first)
    for record in scored:
        record["tokur"]["scores"] = earlier
    code, again, err = run_tokur("score", write_lines(tmp_path / "again.jsonl", scored), "-m", tiny_folder)
    assert (code, err) == (0, "")
    assert [record["tokur"]["scores"] for record in parsed(again)] == [
        record["tokur"]["scores"] for record in parsed(first)
    ]


def test_scoring_again_in_the_same_way_adds_and_in_another_way_replaces(run_tokur, tiny_folder, responses, tmp_path):
    _, first, _ = run_tokur("score", responses, "-m", tiny_folder, "--scores", "eu")
    scored = write_lines(tmp_path / "scored.jsonl", parsed(first))
    _, second, _ = run_tokur("score", scored, "-m", tiny_folder, "--scores", "tu")
    assert parsed(second)[0]["tokur"]["scores"].keys() == {"eu", "tu"}
    _, other, _ = run_tokur("score", scored, "-m", tiny_folder, "--scores", "tu", "--seed", "1")
    assert parsed(other)[0]["tokur"]["scores"].keys() == {"tu"}


@pytest.mark.parametrize("sampling", ["stepwise", "shared", "joint"])
def test_order_and_batches_do_not_change_the_numbers(run_tokur, tiny_folder, tmp_path, sampling):
    given = list(records(30))
    shuffled = random.Random(1).sample(given, len(given))
    results = []
    for rows, budget in ((given, 10**6), (shuffled, 10**6), (given, 1)):
        path = write_lines(tmp_path / "in.jsonl", rows)
        options = ["--sampling", sampling, "--batch-tokens", budget, "--dtype", "float32"]
        code, out, _ = run_tokur("score", path, "-m", tiny_folder, *options)
        assert code == 0
        results.append({record["id"]: record["tokur"] for record in parsed(out)})
        assert [record["id"] for record in parsed(out)] == [row["id"] for row in rows]
    for other in results[1:]:
        for name, tokur in results[0].items():
            for quantity in ("logprob", "tu", "au", "eu"):
                assert other[name]["tokens"][quantity] == pytest.approx(tokur["tokens"][quantity], abs=1e-5, rel=1e-5)


BROKEN = [
    b"{\n", b"not json\n", b'{"question": "q", "response": "r"\n', b"[1, 2]\n", b'"text"\n', b"17\n", b"null\n",
    b'{"question": "q"}\n', b'{"response": "r"}\n', b'{"question": "q", "response": null}\n',
    b'{"question": "q", "response": 5}\n', b'{"question": "q", "response": ["r"]}\n',
    b'{"question": "q", "response": ""}\n',
    b'{"question": 3, "response": "r"}\n', b'{"question": "q", "response": "\\ud800"}\n',
    b'{"question": "\\udfff", "response": "r"}\n', b'{"question": "q", "response": "r", "x": NaN}\n',
    b'{"question": "q", "response": "r", "x": -Infinity}\n', b'{"question": "q", "response": "\xff"}\n',
    b'{"question": "q", "response": "r", "tokur": 3}\n',
    b'{"question": "q", "response": "r", "tokur": {"schema": 2}}\n',
    b'{"question": "q", "response": "r", "tokur": {"token_ids": "r"}}\n',
    b'{"question": "q", "response": "r", "tokur": {"token_ids": [-1]}}\n',
    b'{"question": "q", "response": "r", "tokur": {"token_ids": [1.5]}}\n',
    b'{"question": "q", "response": "r", "tokur": {"token_ids": [99999]}}\n',
    b'{"question": "q", "response": "r", "tokur": {"token_ids": [65, 66]}}\n',
    b'{"messages": [{"role": "user"}], "response": "r"}\n', b'{"messages": "hi", "response": "r"}\n',
    b'{"question": "q", "response": "' + b"long " * 2_000_000 + b'"}\n', b"[" * 100_000 + b"\n",
]  # fmt: skip


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    """1,000 lines, 30 of them broken each in its own way; the good ones hold U+2028 and other traps of splitting."""
    rng = random.Random(2)
    lines = [
        json.dumps({**record, "note": "a\u2028b\u0085c"}, ensure_ascii=False).encode() + b"\n"
        for record in records(970)
    ]
    for number, line in enumerate(rng.sample(BROKEN, len(BROKEN))):
        lines.insert(40 + number * 31, line)
    places = [number for number, line in enumerate(lines, start=1) if line in BROKEN]
    path = tmp_path_factory.mktemp("zoo") / "zoo.jsonl"
    path.write_bytes(b"".join(lines))
    return path, places


def test_every_good_record_is_scored_and_every_bad_one_named(run_tokur, tiny_folder, zoo):
    path, places = zoo
    assert len(places) == 30
    code, out, err = run_tokur("score", path, "-m", tiny_folder, "--skip-invalid", "--no-tokens")
    assert code == 3
    assert [record["id"] for record in parsed(out)] == [f"q{number}" for number in range(970)]
    named = [int(line.split(f"{path}:")[1].split(":")[0]) for line in err.splitlines()[:-1]]
    assert named == places
    assert err.splitlines()[-1] == "tokur score: skipped 30 invalid records"
    assert max(map(len, err.splitlines())) < 500 + len(str(path))


def test_the_first_bad_record_ends_the_run_after_all_before_it(run_tokur, tiny_folder, zoo):
    path, places = zoo
    code, out, err = run_tokur("score", path, "-m", tiny_folder, "--no-tokens")
    assert code == 1
    assert [record["id"] for record in parsed(out)] == [f"q{number}" for number in range(places[0] - 1)]
    assert err.startswith(f"tokur score: {path}:{places[0]}: ")
    assert err.count("\n") == 1


def test_a_response_longer_than_the_context_is_an_error_of_its_record(run_tokur, tiny_folder, tmp_path):
    rows = [{"question": "q", "response": "r" * 600}, {"question": "q", "response": "r"}]
    code, out, err = run_tokur("score", write_lines(tmp_path / "in.jsonl", rows), "-m", tiny_folder, "--skip-invalid")
    assert code == 3
    assert len(parsed(out)) == 1
    assert "in.jsonl:1: prompt and response have" in err
    assert "the model's context holds 512" in err


def test_exact_ids_are_scored_as_they_are(run_tokur, tiny_folder, tmp_path):
    """Text and ids of the same tokens agree; a finished response has its end token scored too."""
    from tests.tiny import tiny_tokenizer

    tokenizer = tiny_tokenizer()
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi"}], tokenize=False, add_generation_prompt=True
    )
    exact = {
        "prompt_token_ids": tokenizer(prompt)["input_ids"],
        "token_ids": tokenizer("Hello 🙂<|im_end|>")["input_ids"],
        "model": str(tiny_folder),
    }
    rows = [
        {"question": "Hi", "response": "Hello 🙂", "tokur": {"finish_reason": "stop"}},
        {"response": "Hello 🙂", "tokur": exact},
        {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello 🙂<|im_end|>"}]},
    ]
    code, out, err = run_tokur(
        "score", write_lines(tmp_path / "in.jsonl", rows), "-m", tiny_folder, "--dtype", "float32"
    )
    assert (code, err) == (0, "")
    text, ids, messages = (record["tokur"]["tokens"] for record in parsed(out))
    assert ids["eu"] == pytest.approx(text["eu"], abs=1e-5)
    assert messages["eu"] == pytest.approx(text["eu"], abs=1e-5)
    assert ids["offsets"] == text["offsets"] == [[i, i + 1] for i in range(6)] + [[6, 7]] * 4 + [[7, 7]]


def test_another_models_responses_are_tokenized_anew_and_that_is_said(run_tokur, tiny_folder, tmp_path):
    row = {"question": "Hi", "response": "Hello", "tokur": {"model": "other/model", "token_ids": [40_000, 7]}}
    code, out, err = run_tokur("score", write_lines(tmp_path / "in.jsonl", [row, row]), "-m", tiny_folder)
    assert code == 0
    assert err.count("responses of other/model are scored by") == 1
    scored = parsed(out)[0]["tokur"]
    assert len(scored["tokens"]["eu"]) == 5
    assert scored["token_ids"] == [40_000, 7]


def test_the_model_is_the_one_the_records_name(run_tokur, tiny_folder, tmp_path):
    row = {"question": "Hi", "response": "Hello", "tokur": {"model": str(tiny_folder)}}
    code, out, _ = run_tokur("score", write_lines(tmp_path / "in.jsonl", [row]))
    assert code == 0
    assert parsed(out)[0]["tokur"]["run"]["model"] == str(tiny_folder)


def test_the_environment_names_a_model_for_records_that_name_none(run_tokur, tiny_folder, responses, monkeypatch):
    monkeypatch.setenv("TOKUR_MODEL", str(tiny_folder))
    code, out, _ = run_tokur("score", responses)
    assert code == 0
    assert parsed(out)[0]["tokur"]["run"]["model"] == str(tiny_folder)


@pytest.mark.parametrize("has_beginning", [True, False])
def test_a_prompt_that_begins_a_sequence_gets_no_second_beginning(run_tokur, tmp_path, has_beginning):
    from tokenizers.processors import TemplateProcessing
    from transformers import AutoTokenizer

    from tests.tiny import tiny_model_folder

    folder = tiny_model_folder(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    token, number = tokenizer.bos_token, tokenizer.bos_token_id
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{token} $A", special_tokens=[(token, number)]
    )
    tokenizer.save_pretrained(folder)
    asked = "What is 1+1?"
    prompt = token + asked if has_beginning else asked
    exact = [number, *tokenizer(asked, add_special_tokens=False)["input_ids"]]
    path = write_lines(tmp_path / "in.jsonl", [{"prompt": prompt}])
    code, out, err = run_tokur("generate", path, "-m", folder, "--max-new-tokens", "2")
    assert code == 0, err
    assert parsed(out)[0]["tokur"]["prompt_token_ids"] == exact
    scores = []
    for row in ({"prompt": prompt}, {"prompt": "", "tokur": {"prompt_token_ids": exact}}):
        path = write_lines(tmp_path / "in.jsonl", [{**row, "response": "two"}])
        code, out, err = run_tokur("score", path, "-m", folder, "--scores", "ll_sum", "--dtype", "float32")
        assert code == 0, err
        scores.append(parsed(out)[0]["tokur"]["scores"]["ll_sum"])
    assert scores[0] == pytest.approx(scores[1], abs=1e-6)


def test_a_system_turn_of_the_records_own_stays_the_only_one(run_tokur, tiny_folder, tmp_path):
    own = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    scored = []
    for row, options in (
        ({"messages": own}, ["--system", "You are a pirate."]),
        ({"messages": own}, []),
        ({"messages": own[1:]}, ["--system", "Be brief."]),
    ):
        path = write_lines(tmp_path / "in.jsonl", [{**row, "response": "Hello"}])
        code, out, err = run_tokur("score", path, "-m", tiny_folder, "--dtype", "float32", *options)
        assert code == 0, err
        scored.append(parsed(out)[0]["tokur"]["tokens"])
    assert scored[0] == scored[1] == scored[2]


def test_templates_decide_what_the_response_follows(run_tokur, tiny_folder, tmp_path):
    """The same response after the same text scores the same, however that text came about."""
    question = "What is 1+1?"
    (tmp_path / "t.jinja").write_text("{{ unit }}: {{ question }}\n")
    chat = "<|im_start|>{}\n{}<|im_end|>\n".format
    rows = {
        "chat": {"question": question},
        "raw": {"question": question},
        "file": {"question": question, "unit": "maths"},
        "system": {"question": question},
    }
    prompts = {
        "chat": chat("user", question) + "<|im_start|>assistant\n",
        "raw": question,
        "file": chat("user", f"maths: {question}") + "<|im_start|>assistant\n",
        "system": chat("system", "Be brief.") + chat("user", question) + "<|im_start|>assistant\n",
    }
    options = {
        "chat": [],
        "raw": ["--template", "raw"],
        "file": ["--template", tmp_path / "t.jinja"],
        "system": ["--system", "Be brief."],
    }
    for name, row in rows.items():
        scored = []
        for prompt, extra in ((row, options[name]), ({"prompt": prompts[name]}, [])):
            path = write_lines(tmp_path / "in.jsonl", [{**prompt, "response": "2"}])
            code, out, err = run_tokur("score", path, "-m", tiny_folder, *extra)
            word_for_word = prompt.get("prompt") == question
            assert (code, "is taken word for word" in err, err.count("\n")) == (0, word_for_word, word_for_word)
            scored.append(parsed(out)[0]["tokur"]["tokens"])
        assert scored[0] == scored[1], name


def test_the_papers_prompt_is_asked_for_by_name(run_tokur, tmp_path):
    """The text of the paper's appendix "Prompt Templates", in a user's turn."""
    from tests.tiny import tiny_model_folder

    folder = tiny_model_folder(tmp_path, max_position_embeddings=2048)
    content = (
        "Solve the following math problem efficiently and clearly:\n\n"
        "- For simple problems (2 steps or fewer):\nProvide a concise solution with minimal explanation.\n\n"
        "- For complex problems (3 steps or more):\nUse this step-by-step format:\n\n"
        "## Step 1: [Concise description]\n[Brief explanation and calculations]\n\n"
        "## Step 2: [Concise description]\n[Brief explanation and calculations]\n\n...\n\n"
        "Regardless of the approach, always conclude with:\n\n"
        "Therefore, the final answer is: $\\boxed{answer}$. I hope it is correct.\n\n"
        "Where [answer] is just the final number or expression that solves the problem.\n\nProblem: What is 1+1?"
    )
    rows = [
        {"question": "What is 1+1?", "response": "2"},
        {"messages": [{"role": "user", "content": content}], "response": "2"},
    ]
    path = write_lines(tmp_path / "in.jsonl", rows)
    code, out, err = run_tokur("score", path, "-m", folder, "--template", "math", "--sigma", 0.1)
    assert (code, err) == (0, "")
    by_template, written_out = parsed(out)
    assert by_template["tokur"] == written_out["tokur"]


def test_foreign_rows_are_scored_and_keep_their_fields(run_tokur, tiny_folder, tmp_path):
    rows = [{"prompt": "Say hi.", "completion": " hi"}, {"prompt": "Say ho.", "completion": " ho"}]
    code, out, _ = run_tokur("score", write_lines(tmp_path / "in.jsonl", rows), "-m", tiny_folder)
    assert code == 0
    assert [(r["prompt"], r["completion"], r["response"]) for r in parsed(out)] == [
        ("Say hi.", " hi", " hi"),
        ("Say ho.", " ho", " ho"),
    ]
    nested = [{"q": {"text": "Why?"}, "runs": {"a": {"solution": "because"}}}]
    code, out, err = run_tokur(
        "score", write_lines(tmp_path / "in.jsonl", nested), "-m", tiny_folder, "--question-field", "q.text",
        "--response-field", "runs.a.solution",
    )  # fmt: skip
    assert (code, err) == (0, "")
    assert parsed(out)[0]["response"] == "because"


def test_a_missing_model_and_a_missing_file_are_said_in_one_line(run_tokur, tmp_path, responses):
    for arguments, message in (
        ((responses, "-m", tmp_path / "nowhere"), "nowhere"),
        ((tmp_path / "nothing.jsonl",), "nothing.jsonl"),
    ):
        code, out, err = run_tokur("score", *arguments)
        assert (code, out) == (1, "")
        assert message in err
        assert err.count("\n") == 1
