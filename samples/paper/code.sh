#!/bin/sh
# The paper's table of code: HumanEval, graded by running its tests in bubblewrap.
#
#   sh samples/paper/code.sh
set -eu

MODEL=${MODEL:-Qwen/Qwen2.5-3B-Instruct}
TEMPLATE=${TEMPLATE:-chat}
. "$(dirname "$0")/common.sh"

asked=$(first "${INPUT:-hf:openai/openai_humaneval:test}" "${LIMIT:-164}")
answer humaneval "$asked"
detection humaneval pe,ll,self_certainty,deepconf,tu,au,eu,ll_sum,neg_length --versus ll_sum --allow-code-execution
