#!/usr/bin/env bash
# Train with verl: bash run_verl.sh actor_rollout_ref.model.path=DIR [size=gpu16] [key=value ...]
# Rows come from `agentr1 prepare gsm8k_tool --local_save_dir data/gsm8k_tool` (DATA names another folder).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
task=$(basename "$here")
data=${DATA:-$PWD/data/$task}
export VERL_USE_EXTERNAL_MODULES=agentr1_train.verl.plugin
export TOKENIZERS_PARALLELISM=${TOKENIZERS_PARALLELISM:-false}
case " $* " in *" size=cpu "*) export VERL_PLATFORM=cpu VERL_ENGINE_DEVICE=cuda OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} ;; esac
exec "${PYTHON:-python}" -m verl.trainer.main_ppo --config-path "$here" --config-name verl \
  "data.train_files=$data/train.parquet" "data.val_files=$data/validation.parquet" "$@"
