#!/bin/sh
# The paper's table of logical reasoning: Zebra Puzzles, Leg Counting and Color-Cube Rotation of Reasoning Gym.
#
#   LIMIT=100 sh samples/paper/logic.sh
set -eu

MODEL=${MODEL:-Qwen/Qwen2.5-3B-Instruct}
TEMPLATE=${TEMPLATE:-chat}
LIMIT=${LIMIT:-100} # questions of each task
. "$(dirname "$0")/common.sh"

for task in zebra_puzzles leg_counting color_cube_rotation; do
    answer "$task" "gym:$task?size=$LIMIT&seed=1" \
        --system 'Think step by step. Then give the final answer between <answer> and </answer>.'
    detection "$task" pe,ll,self_certainty,deepconf,tu,au,eu,ll_sum,neg_length --versus ll_sum
done
