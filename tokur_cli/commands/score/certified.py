"""``--certificate`` of ``score`` and ``generate --score``, read and checked before a model is loaded."""

from __future__ import annotations

from dataclasses import replace

from tokur_cli.commands.options.scoring import ScoringOptions
from tokur_cli.commands.score.calibrated import chosen_scores, declared_settings
from tokur_cli.commands.shared.certified import CertifiedAnswers
from tokur_cli.records.errors import UsageError
from tokur_cli.scores.calibration import P_CORRECT
from tokur_cli.scores.certificate import Certificate, read_certificate
from tokur_cli.scores.parts import part_of


def with_certificate(scoring: ScoringOptions) -> ScoringOptions:
    """Return the options with what the certificate's file holds.

    Raises:
        TokurError: it cannot be read.
        UsageError: it is of responses that were chosen among several, or of a score that is not computed here or made
            in another way.
    """
    if scoring.certificate is None:
        return scoring
    certificate = read_certificate(scoring.certificate)
    option = f"--certificate {scoring.certificate}"
    if certificate.selection is not None:
        raise UsageError(
            f"{option}: is of responses that were chosen among several: leave it out here, and pipe into "
            f"tokur select {option}"
        )
    if certificate.score not in [score.name for score in chosen_scores(scoring)]:
        raise UsageError(
            f"{option}: goes by {certificate.score}, which is not computed here: add {_adding(certificate)}"
        )
    known = {"computed_from": None, **declared_settings(scoring)}
    CertifiedAnswers(certificate, scoring.certificate).check_run({**certificate.settings, **known})
    return replace(scoring, certified=certificate)


def certified_answers(scoring: ScoringOptions) -> CertifiedAnswers | None:
    """Return what says which answers are withheld; None without a certificate."""
    return None if scoring.certified is None else CertifiedAnswers(scoring.certified, str(scoring.certificate))


def _adding(certificate: Certificate) -> str:
    """Return the options with which its score is computed."""
    if certificate.score == P_CORRECT:
        return "--calibration FILE, that of the certificate"
    key = part_of(certificate.score)
    tokens = f" --tokens '{key[1:]}={certificate.settings.get(key, 'REGEX')}'" if key else ""
    return f"--scores default,{certificate.score}{tokens}"
