#!/bin/bash
#SBATCH --nodes=4 --ntasks-per-node=1 --gpus-per-node=8 --exclusive
# Scores responses.jsonl on four nodes: Ray is started on each of them, tokur on the first.
export RAY_AUTH_MODE=token
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1):6379
srun ray symmetric-run --address "$head" --min-nodes "$SLURM_NNODES" -- \
  tokur score responses.jsonl -m MODEL --cluster "$head" -o scored.jsonl --resume
