#!/usr/bin/env bash
# Train a recipe with verl: run_verl.sh TASK actor_rollout_ref.model.path=DIR [size=gpu16] [key=value ...]
# Rows are those of `agentr1 prepare TASK` in DATA (default: data/TASK below the current folder).
set -euo pipefail
task=${1:?usage: run_verl.sh TASK [key=value ...]}
shift
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
data=${DATA:-$PWD/data/$task}
if [ ! -f "$data/train.parquet" ]; then
  echo "error: $data/train.parquet: no such file; make it with \`agentr1 prepare $task\` or set DATA" >&2
  exit 2
fi
export VERL_USE_EXTERNAL_MODULES=agentr1_train.verl.plugin
# Ray's own niceness of 15 starves its workers as soon as the machine does anything else.
export RAY_worker_niceness=${RAY_worker_niceness:-0} RAY_worker_register_timeout_seconds=${RAY_worker_register_timeout_seconds:-600}
export TOKENIZERS_PARALLELISM=${TOKENIZERS_PARALLELISM:-false}
case " $* " in
*" size=cpu "*) export VERL_PLATFORM=cpu VERL_ENGINE_DEVICE=cuda OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} ;;
esac
exec "${PYTHON:-python}" -m verl.trainer.main_ppo --config-path "$here/$task" --config-name verl \
  "data.train_files=$data/train.parquet" "data.val_files=$data/validation.parquet" "$@"
