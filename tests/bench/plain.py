"""Scoring as a capable user would write it in an afternoon: the yardstick of ``tests.bench.score``."""

import torch

BATCH = 16
TOP_K = 20


class PlainScorer:
    """One forward pass a draw with swapped weights, padded batches of 16, all logits, log-softmax in float32.

    Draws are fixed for a response (sampling ``shared``): a fresh draw a token cannot be had by swapping weights.
    """

    def __init__(self, model, posterior, draws):
        self.model, self.draws = model, draws
        self.weights = []  # (module, [W_0, W_1, …, W_M])
        for matrix in posterior.matrices:
            module = matrix.module
            mean = module.weight.detach().clone()
            noise = [posterior.weight_noise(matrix, m).to(mean.device) for m in range(draws)]
            basis = matrix.basis.to(mean.device)
            self.weights.append((module, [mean, *((mean + basis @ e.T).to(mean.dtype) for e in noise)]))

    def swap(self, draw):
        """Put the weights of a draw in place; 0 for the mean weights."""
        for module, weights in self.weights:
            module.weight.data = weights[draw]

    def batches(self, responses):
        for first in range(0, len(responses), BATCH):
            yield responses[first : first + BATCH]

    @torch.inference_mode()
    def logits(self, batch):
        """(B, L, V) of a batch padded on the right."""
        device = self.model.device
        length = max(len(r.prompt_ids) + len(r.response_ids) for r in batch)
        ids = torch.zeros(len(batch), length, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, response in enumerate(batch):
            sequence = [*response.prompt_ids, *response.response_ids]
            ids[row, : len(sequence)] = torch.tensor(sequence)
            mask[row, : len(sequence)] = 1
        return self.model(input_ids=ids.to(device), attention_mask=mask.to(device)).logits

    @torch.inference_mode()
    def score(self, responses):
        results = []
        for batch in self.batches(responses):
            batch_results, mixtures = [{} for _ in batch], [0] * len(batch)
            for draw in range(1 + self.draws):
                self.swap(draw)
                logits = self.logits(batch)
                for row, response in enumerate(batch):
                    prompt, tokens = len(response.prompt_ids), len(response.response_ids)
                    log_p = logits[row, prompt - 1 : prompt + tokens - 1].float().log_softmax(-1)
                    p = log_p.exp()
                    entropy = -(p * log_p).sum(-1)
                    result = batch_results[row]
                    if draw == 0:
                        targets = torch.tensor(response.response_ids, device=log_p.device)
                        result["logprob"] = log_p.gather(-1, targets[:, None])[:, 0]
                        result["entropy"] = entropy
                        result["self_certainty"] = -log_p.mean(-1) - torch.log(torch.tensor(log_p.shape[-1]))
                        result["deepconf"] = -log_p.topk(TOP_K).values.mean(-1)
                    else:
                        mixtures[row] = mixtures[row] + p / self.draws
                        result["au"] = result.get("au", 0) + entropy / self.draws
                del logits
            for result, mixture in zip(batch_results, mixtures, strict=True):
                result["eu"] = (-(mixture * mixture.log()).nan_to_num().sum(-1) - result["au"]).clamp(min=0)
                result["tu"] = result["au"] + result["eu"]
            results += [{name: value.cpu().numpy() for name, value in result.items()} for result in batch_results]
        self.swap(0)
        return results
