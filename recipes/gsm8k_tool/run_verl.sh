#!/usr/bin/env bash
# bash run_verl.sh actor_rollout_ref.model.path=DIR [size=gpu1|gpu8|gpu16|cpu] [key=value ...]
exec bash "$(dirname "${BASH_SOURCE[0]}")/../run_verl.sh" gsm8k_tool "$@"
