import json
from collections import Counter

import pytest

from tests.commands.conftest import answer_of_a_tiny_model
from tests.helpers import parsed, questions, write_lines
from tests.tiny import tiny_model_folder, tiny_tokenizer
from tokur_cli.engine.generation.decoder import Decoder
from tokur_cli.metrics.adaptive_consistency import fewest_settled
from tokur_cli.records.errors import TokurError
from tokur_cli.records.record import Record

SAMPLED = ["--temperature", "1.0", "--max-new-tokens", "20"]


@pytest.fixture
def asked(tmp_path):
    return write_lines(tmp_path / "questions.jsonl", questions())


def test_generate_responses_come_in_order_with_all_that_score_needs(run_tokur, tiny_folder, asked):
    code, out, err = run_tokur("generate", asked, "-m", tiny_folder, "-n", "3", *SAMPLED, "--seed", "7")
    assert (code, err) == (0, "")
    records = parsed(out)
    assert [(r["id"], r["tokur"]["sample"]) for r in records] == [(f"q{n}", s) for n in range(5) for s in range(3)]
    for record in records:
        tokur = record["tokur"]
        assert {name: record[name] for name in ("id", "question", "reference", "level")} == questions()[record["level"]]
        assert tokur["schema"] == 1
        assert tokur["model"] == str(tiny_folder)
        assert tokur["seed"] == 7
        assert tokur["finish_reason"] == ("stop" if tokur["token_ids"][-1] == 258 else "length")
        assert 1 <= len(tokur["token_ids"]) <= 20
        assert tokur["generation"]["temperature"] == 1.0


def test_generate_ids_beyond_the_tokenizers_are_generated_and_scored(run_tokur, asked, tmp_path):
    folder = tiny_model_folder(tmp_path, vocab_size=300)
    options = ("--temperature", "1", "-n", "2", "--max-new-tokens", "30")
    code, out, err = run_tokur("generate", asked, "-m", folder, *options)
    assert code == 0, err
    made = [json.loads(line)["tokur"]["token_ids"] for line in out.splitlines()]
    assert max(map(max, made)) >= len(tiny_tokenizer())
    (tmp_path / "made.jsonl").write_text(out)
    code, out, err = run_tokur("score", tmp_path / "made.jsonl")
    assert code == 0, err
    lengths = [len(json.loads(line)["tokur"]["tokens"]["logprob"]) for line in out.splitlines()]
    assert lengths == list(map(len, made))


def test_generate_scoring_in_the_same_run_gives_the_same_bytes(run_tokur, tiny_folder, asked, tmp_path):
    options = ["-m", tiny_folder, "-n", "4", *SAMPLED]
    _, responses, _ = run_tokur("generate", asked, *options)
    path = tmp_path / "responses.jsonl"
    path.write_text(responses)
    _, piped, _ = run_tokur("score", path, "--draws", "3")
    code, together, err = run_tokur("generate", asked, *options, "--score", "--draws", "3")
    assert (code, err) == (0, "")
    assert together == piped


def test_generate_a_sample_is_the_same_for_any_n_and_any_order(run_tokur, tiny_folder, asked, tmp_path):
    def texts(path, n):
        _, out, _ = run_tokur("generate", path, "-m", tiny_folder, "-n", n, *SAMPLED, "--dtype", "float32")
        return {(r["id"], r["tokur"]["sample"]): r["response"] for r in parsed(out)}

    four, sixteen = texts(asked, 4), texts(asked, 16)
    assert all(sixteen[key] == text for key, text in four.items())
    assert texts(write_lines(tmp_path / "back.jsonl", questions()[::-1]), 4) == four


def test_generate_a_question_of_which_one_sample_fails_is_one_error_and_the_others_go_on(
    run_tokur, tiny_folder, asked, monkeypatch
):
    """Samples of it that were under way come after the failure, and so may another failure."""
    whole = Decoder.serve

    def small_machine(self, requests):
        failed = []

        def noted():
            for request in requests:
                failed.extend([(request, TokurError("too little memory for a response"))] * 2 * (request.key == "q1"))
                yield request

        for response in whole(self, noted()):
            yield response
            if failed and response.index == 1:
                yield failed.pop()

    monkeypatch.setattr(Decoder, "serve", small_machine)
    code, out, err = run_tokur("generate", asked, "-m", tiny_folder, "-n", "3", *SAMPLED, "--skip-invalid")
    assert code == 3
    assert [record["id"] for record in parsed(out)] == [f"q{n}" for n in (0, 2, 3, 4) for _ in range(3)]
    assert err.count("questions.jsonl:2: too little memory") == 1
    assert "skipped 1 invalid record\n" in err


def test_generate_examples_come_before_the_question(run_tokur, tiny_folder, tmp_path):
    examples = write_lines(
        tmp_path / "shots.jsonl", [{"question": "1+1?", "response": "2"}, {"question": "2+2?", "reference": "4"}]
    )
    turns = [
        {"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"},
        {"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"},
        {"role": "user", "content": "3+3?"},
    ]  # fmt: skip
    prompts = {}
    for name, row, options in (
        ("chat", {"question": "3+3?"}, ["--few-shot", examples]),
        ("turns", {"messages": turns}, []),
        ("raw", {"question": "3+3?"}, ["--few-shot", examples, "--template", "raw"]),
        ("text", {"prompt": "1+1?\n2\n\n2+2?\n4\n\n3+3?\n"}, []),
    ):
        path = write_lines(tmp_path / "q.jsonl", [row])
        _, out, err = run_tokur("generate", path, "-m", tiny_folder, "--max-new-tokens", "3", *options)
        assert ("taken word for word" in err) if name == "text" else err == ""
        prompts[name] = parsed(out)[0]["tokur"]["prompt_token_ids"]
    assert prompts["chat"] == prompts["turns"]
    assert prompts["raw"] == prompts["text"]


def test_generate_what_is_about_the_old_response_goes_with_it(run_tokur, tiny_folder, tmp_path):
    turns = [{"role": "user", "content": "3+3?"}, {"role": "assistant", "content": "7"}]
    said = {"correct": 1, "is_correct": [1], "claims": [{"start": 0, "end": 1, "correct": True}]}
    said |= {"reasoning_content": "4 and 4", "finish_reason": "stop"}
    rows = [
        {"id": "again", "question": "4+4?", "response": "9", **said, "note": 1},
        {"id": "chat", "messages": turns, "reference": "6", **said},
        {"id": "asked", "question": "Capital of France?", "correct": "Paris"},  # what the source calls its answer
        {"id": "turn", "messages": [*turns, {"role": "user", "content": "Sure?"}], "response": None},
    ]
    path, out = write_lines(tmp_path / "q.jsonl", rows), tmp_path / "out.jsonl"
    command = ["generate", path, "-m", tiny_folder, "--max-new-tokens", "3", "-o", out]
    code, _, err = run_tokur(*command)
    assert (code, err) == (0, "")
    again, chat, asked, turn = made = parsed(out.read_text())
    assert chat == {"id": "chat", "messages": turns[:1], "reference": "6"} | {n: chat[n] for n in ("response", "tokur")}
    assert set(again) == {"id", "question", "response", "note", "tokur"}
    assert (asked["correct"], turn["messages"]) == ("Paris", rows[3]["messages"])
    assert all(record["response"] not in ("7", "9") for record in made)
    out.write_bytes(out.read_bytes()[:-50])
    assert run_tokur(*command, "--resume")[0] == 0
    assert parsed(out.read_text()) == made
    template = write_lines(tmp_path / "t.jinja", [b"Q: {{ question }}\n"])
    _, anew, err = run_tokur("generate", out, "-m", tiny_folder, "--max-new-tokens", "3", "--template", template)
    prompts = [[r["tokur"]["prompt_token_ids"] for r in records] for records in (made, parsed(anew))]
    assert [one != other for one, other in zip(*prompts, strict=True)] == [True, False, True, False]
    assert "messages are a whole prompt" in err
    write_lines(template, [b"Q: {{ question }} {{ reasoning_content }} {{ response }}?"])  # asks about the old response
    assert run_tokur("generate", path, "-m", tiny_folder, "--limit", 1, "--dry-run", "--template", template)[0] == 0


def test_generate_thought_begun_in_the_prompt_is_none_of_the_answer_and_special_tokens_stop(run_tokur, tmp_path):
    folder, tokenizer = tiny_model_folder(tmp_path), tiny_tokenizer()
    tokenizer.chat_template = "{{ messages[-1].content }}{% if add_generation_prompt %}<think>\n{% endif %}"
    tokenizer.save_pretrained(folder)
    asked = write_lines(tmp_path / "q.jsonl", [{"question": "?"}] * 2)
    options = ["-n", 40, *SAMPLED, "--stop", "<|im_start|>"]
    code, out, err = run_tokur("generate", asked, "-m", folder, *options)
    assert (code, "questions that stand more than once get the same responses" in err) == (0, True)
    records = parsed(out)
    assert all(record["tokur"]["reasoning"] == "begun" for record in records)
    assert Counter(257 in record["tokur"]["token_ids"][:-1] for record in records) == {False: 80}
    assert any(record["tokur"]["token_ids"][-1] == 257 for record in records)


STEPS = [
    *["--set", "step_end=a", "--set", "step_end=e", "--set", "step_tokens=6"],
    *["--max-new-tokens", "20", "--dtype", "float32"],
]
GUIDED = ["-n", "4", *STEPS, "--guide"]


def test_guide_records_tell_how_they_came_about(run_tokur, tiny_folder, asked):
    code, out, err = run_tokur("generate", asked, "-m", tiny_folder, *GUIDED, "eu", "--guide-temperature", "auto")
    assert code == 0
    records = parsed(out)
    assert [(r["id"], r["tokur"]["sample"]) for r in records] == [(f"q{n}", s) for n in range(5) for s in range(4)]
    for record in records:
        generation, particle = record["tokur"]["generation"], record["tokur"]["particle"]
        assert (generation["guide"], generation["guide_temperature"], generation["temperature"]) == ("eu", "auto", 0.8)
        assert generation["posterior"]["draws"] == 2
        assert len(particle["ends"]) == len(particle["ancestors"]) + 1
        assert particle["ends"][-1] == len(record["tokur"]["token_ids"])
    assert len({(record["id"], record["tokur"]["particle"]["root"]) for record in records}) < len(records)
    assert "of 4 lineages are left at the end" in err


@pytest.mark.parametrize(("guide", "score"), [("eu", "eu_mean"), ("tu", "tu"), ("ll", "ll_sum")])
def test_guide_scoring_the_output_gives_the_last_score_again(run_tokur, tiny_folder, asked, tmp_path, guide, score):
    over = "sum" if score == "tu" or score.endswith("_sum") else "mean"
    _, out, _ = run_tokur("generate", asked, "-m", tiny_folder, *GUIDED, guide, "--guide-over", over)
    path = write_lines(tmp_path / "particles.jsonl", parsed(out))
    code, scored, err = run_tokur("score", path, "--dtype", "float32")
    assert (code, err) == (0, "")
    for record in parsed(scored):
        last = record["tokur"]["particle"]["scores"][-1]
        assert last == pytest.approx(record["tokur"]["scores"][score], rel=1e-4, abs=1e-6)


LEVEL, SAMPLES = 0.8, 12


def part_of(whole):
    """The lines of a full run that are to be there, and how many votes they settle."""
    by_question = {}
    for line in whole.splitlines(keepends=True):
        by_question.setdefault(json.loads(line)["id"], []).append(line)
    kept, settled = [], 0
    for lines in by_question.values():
        answers = [answer_of_a_tiny_model(Record.parse(line, None, None)) for line in lines]
        fewest = fewest_settled([answer and answer.text for answer in answers], LEVEL, SAMPLES)
        kept += lines[:fewest]
        settled += fewest <= SAMPLES
    return b"".join(kept), settled


@pytest.fixture
def command(tiny_folder, tmp_path):
    asked = write_lines(tmp_path / "asked.jsonl", questions(9))
    options = ["--temperature", 1, "--max-new-tokens", 6, "--dtype", "float32"]
    return ["generate", asked, "-m", tiny_folder, "-n", SAMPLES, *options]


@pytest.fixture
def whole(run_tokur, command, tmp_path):
    assert run_tokur(*command, "-o", tmp_path / "whole.jsonl")[0] == 0
    return (tmp_path / "whole.jsonl").read_bytes()


@pytest.mark.parametrize("rows", [1, 64])
def test_stop_at_what_is_written_is_the_part_of_a_full_run_that_settles_the_votes(
    run_tokur, command, whole, tmp_path, opinionated, rows, monkeypatch
):
    """And no more is drawn."""
    output, drawn, serve = tmp_path / "part.jsonl", [], Decoder.serve
    monkeypatch.setattr(Decoder, "serve", lambda *asked: (drawn.append(one) or one for one in serve(*asked)))
    options = ["--stop-at", LEVEL, "--set", f"batch_size={rows}", "-o", output]
    code, _, err = run_tokur(*command, *options)
    assert code == 0, err
    part, settled = part_of(whole)
    assert output.read_bytes() == part
    assert len(part) < len(whole)
    written = Counter(record["id"] for record in parsed(output.read_text()))
    assert written.total() == sum(one is not None for one in drawn)
    assert f"{settled} of 9 questions settled; drew {written.total()} of {9 * SAMPLES} samples" in err
    output.write_bytes(b"".join(part.splitlines(keepends=True)[:-1]))
    for _ in ("a response is missing", "nothing is"):
        assert run_tokur(*command, *options, "--resume")[0] == 0
        assert output.read_bytes() == part
