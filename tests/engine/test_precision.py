"""What is computed in float64 is computed on the CPU where the model is on a Mac's GPU, which has none."""

import pytest
import torch

from tests.engine.fake_gpu import fake_mac_gpu
from tokur_cli.engine.generation.sampling import Sampling, choose_tokens
from tokur_cli.engine.posterior.basis import left_singular_vectors
from tokur_cli.engine.scoring.quantities import token_quantities
from tokur_cli.scores.quantities import ON_DEMAND, QUANTITIES


def test_the_fake_gpu_has_no_float64(monkeypatch):
    with fake_mac_gpu(monkeypatch):
        values = torch.empty(2, 5, device="mps")
        assert values.cpu().double().dtype == torch.float64
        with pytest.raises(TypeError, match="float64"):
            values.double()
        with pytest.raises(TypeError, match="float64"):
            torch.zeros(3, dtype=torch.float64, device="mps")


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.7), Sampling(0.7, top_k=5)])
def test_tokens_are_drawn(sampling, monkeypatch):
    with fake_mac_gpu(monkeypatch):
        logits = torch.empty(3, 700, dtype=torch.bfloat16, device="mps")
        assert choose_tokens(logits, sampling, [1, 2, -3]).shape == (3,)


@pytest.mark.parametrize("joint", [False, True])
def test_draws_are_weighted_together(joint, monkeypatch):
    with fake_mac_gpu(monkeypatch):
        hidden, head = torch.empty(3, 20, 8, device="mps"), torch.empty(8, 700, device="mps")
        targets = torch.zeros(20, dtype=torch.long, device="mps")
        before = torch.zeros(1, 2, dtype=torch.float64) if joint else None
        found = token_quantities(lambda states: states @ head, hidden, targets, [20], before=before)
        assert set(found) == (QUANTITIES.keys() - ON_DEMAND) | ({"draw_log_p"} if joint else set())
        assert all(values.device.type == "cpu" for values in found.values())


def test_weights_are_decomposed(monkeypatch):
    with fake_mac_gpu(monkeypatch):
        assert left_singular_vectors(torch.empty(16, 12, device="mps"), 4).shape == (16, 4)
