"""``--certify``: labelled records are read, and a certificate is written, printed and drawn."""

from __future__ import annotations

from collections.abc import Sequence

from tokur_cli.commands.evaluate.certify.finding import find
from tokur_cli.commands.evaluate.certify.questions import LabelledQuestions
from tokur_cli.commands.evaluate.certify.showing import draw, print_certificate, summary
from tokur_cli.commands.evaluate.reading.columns import Wanted
from tokur_cli.commands.evaluate.reading.responses import ResponseReader
from tokur_cli.commands.options.evaluate import EvaluationOutput
from tokur_cli.commands.options.fit import CertifyOptions
from tokur_cli.commands.options.labels import LabelOptions
from tokur_cli.commands.options.streams import InputOptions
from tokur_cli.commands.shared.errors import InvalidRecords, say
from tokur_cli.metrics.certification import Target
from tokur_cli.records.errors import TokurError, UsageError
from tokur_cli.records.outputs import writing_whole
from tokur_cli.records.streams import STDIN, display_name
from tokur_cli.scores.catalogue import Score, choose_scores
from tokur_cli.views.tables import table_console

COMMAND = "evaluate"
DEFAULT_SCORE = "eu"


def write_certificate(
    paths: Sequence[str],
    source: InputOptions,
    options: CertifyOptions,
    by: str | None,
    labels: LabelOptions,
    target: EvaluationOutput,
) -> None:
    """Find what these labels certify and write it; what cannot be certified ends in an error that says what could."""
    assert options.most_wrong is not None
    if target.plots is not None:
        from tokur_cli.views.plots import require_matplotlib

        require_matplotlib()
    questions = LabelledQuestions(_chosen(by))
    invalid = InvalidRecords(COMMAND, source.skip_invalid)
    wanted = Wanted({questions.score.name: questions.score.orientation})
    reader = ResponseReader(source, wanted, invalid, labels, collector=questions)
    runs = reader.read(paths, target)
    for line in reader.told:
        say(COMMAND, line)
    if not runs:
        invalid.finish(none_of=", ".join(map(display_name, paths)))
        return
    if len(runs) > 1:
        raise TokurError("--certify takes one run: put its files together, or leave out the records of other seeds")
    for line in questions.told():
        say(COMMAND, line)
    goal = Target(options.most_wrong, options.doubt)
    certificate = find(questions, goal)
    if target.plots is not None:
        draw(certificate, questions, goal, target.plots)
    with writing_whole(target.path or STDIN) as file:
        if target.is_table:
            with table_console(file) as console:
                print_certificate(certificate, questions.how_chosen, console)
        else:
            file.write(certificate.as_json())
            say(COMMAND, summary(certificate))
    invalid.finish()


def _chosen(by: str | None) -> Score:
    scores = choose_scores(by or DEFAULT_SCORE)
    if len(scores) > 1:
        raise UsageError(f"--certify goes by one score, and --by {by} names {len(scores)}; p_correct is one of several")
    return scores[0]
