#!/usr/bin/env bash
# gsm8k_tool or alfworld on one or two GPUs without network; see README.md beside this file.
set -euo pipefail
here=${CHECKOUT:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
SITE=${SITE:-/tmp/site} MODEL=${MODEL:-/tmp/model} WORK=${WORK:-/tmp/work}
GPUS=${GPUS:-1} STEPS=${STEPS:-120} SECONDS_LIMIT=${SECONDS_LIMIT:-420} PROMPTS=${PROMPTS:-16} NAME=${NAME:-verl}
SIZE=${SIZE:-gpu1} DEVICE=${DEVICE:-cuda} PYTHON=${PYTHON:-python3} RECIPE=${RECIPE:-gsm8k_tool}
case $RECIPE in
gsm8k_tool)
  cold=cold data="$WORK/data"
  rows=(--local_save_dir "$data" --num_train 8000 --num_validation 200 --num_test 200)
  env=(agentr1.env.system_prompt=null data.max_prompt_length=768 data.max_response_length=96)
  local_only=(cold_start.episodes=2600 agentr1.eval.extra.new_templates.episodes=0)
  ;;
alfworld)
  # Generated easy games. verl's configuration of the recipe is for full-size games and prompts.
  cold=cold-alfworld data="$WORK/data-alfworld"
  rows=(--output_dir "$data" --difficulty easy)
  env=("agentr1.env.context={name: window, k: 8}" 'agentr1.env.system_prompt=""' "agentr1.env.augment=[]"
    agentr1.env.kwargs.difficulty=easy agentr1.env.kwargs.max_steps=12 data.max_prompt_length=1024 data.max_response_length=24)
  local_only=(cold_start.episodes=2000 cold_start.batch_size=32)
  ;;
*) echo "RECIPE=$RECIPE: expected gsm8k_tool or alfworld" >&2; exit 2 ;;
esac
mkdir -p "$WORK/links"
ln -sfn "$here/wrappers" "$WORK/links/agentr1_wrappers"; ln -sfn "$here/recipes" "$WORK/links/agentr1_recipes"
export PYTHONPATH="$here:$WORK/links:$SITE" VLLM_USE_FLASHINFER_SAMPLER=0 HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1
export RAY_USAGE_STATS_ENABLED=0 TOKENIZERS_PARALLELISM=false OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1
# NVLink multicast stays off, also inside vLLM; Ray must not judge by a memory that grows with use.
export NCCL_NVLS_ENABLE=0 VLLM_ALLREDUCE_USE_SYMM_MEM=0 RAY_memory_monitor_refresh_ms=0 RAY_worker_niceness=0
cd "$WORK"
cold_started() { { ls -d "$WORK/$cold"/checkpoints/step-* 2>/dev/null || true; } | tail -n 1; }
part=${1:?cold, local, verl, even or report}
shift
case $part in
cold | local)
  # Both are the local back end: supervised steps on the scripted expert, then none or many updates.
  # Prompts are those of the runs with verl.
  if [ "$part" = cold ]; then name=$cold from=$MODEL steps=0 supervised=${COLD_STEPS:-40}; else
    name=${cold/cold/local} from=$(cold_started) steps=${LOCAL_STEPS:-100} supervised=0
  fi
  flag=$([ -f "$WORK/$name/config.yaml" ] && echo --resume || echo --overwrite)
  "$PYTHON" -m agentr1_train.cli.main train "recipe=$RECIPE" "device=$DEVICE" "dir=$WORK/$name" "model=${from:-$MODEL}" \
    lr=2e-5 cold_start.optimizer=adamw cold_start.lr=1e-4 cold_start.lr_warmup_steps=5 "${local_only[@]}" \
    "cold_start.steps=$supervised" "steps=$steps" "batch=$PROMPTS" trainer.test_freq=0 trainer.save_freq=50 \
    'trainer.logger=[console,jsonl]' "${env[@]}" "agentr1.time_limit=$SECONDS_LIMIT" "$@" "$flag"
  ;;
even) "$PYTHON" -m benchmarks.gpu.even_heads "$MODEL" "$WORK/even" ;;
verl)
  start=${START:-$(cold_started)}
  start=${start:-$MODEL}
  if [ ! -f "$data/train.parquet" ]; then "$PYTHON" -m agentr1_train.cli.main prepare "$RECIPE" "${rows[@]}"; fi
  export VERL_USE_EXTERNAL_MODULES=agentr1_train.verl.plugin
  # Graphs of the decoding steps alone: vLLM's compiler takes half a minute at each start.
  vllm=++actor_rollout_ref.rollout.engine_kwargs.vllm.compilation_config
  graphs=(actor_rollout_ref.rollout.enforce_eager=false "$vllm.mode=0" "$vllm.cudagraph_mode=FULL_DECODE_ONLY"
    "actor_rollout_ref.rollout.cudagraph_capture_sizes=[1,2,4,8,16,32,64,96,128,192,256]")
  if [ -n "${EAGER:-}" ]; then graphs=(actor_rollout_ref.rollout.enforce_eager=true); fi
  timeout -s INT "$SECONDS_LIMIT" "$PYTHON" -m verl.trainer.main_ppo --config-path "$here/recipes/$RECIPE" --config-name verl \
    "size=$SIZE" "actor_rollout_ref.model.path=$start" "data.train_files=$data/train.parquet" "data.val_files=$data/test.parquet" \
    "trainer.default_local_dir=$WORK/$NAME" trainer.resume_mode=auto "trainer.n_gpus_per_node=$GPUS" \
    "trainer.total_training_steps=$STEPS" "trainer.save_freq=${SAVE_FREQ:-10}" trainer.test_freq=1000 trainer.val_before_train=true 'trainer.logger=[console]' \
    "data.train_batch_size=$PROMPTS" data.dataloader_num_workers=0 "${env[@]}" \
    actor_rollout_ref.actor.optim.lr=2e-5 actor_rollout_ref.actor.use_kl_loss=false actor_rollout_ref.actor.ppo_max_token_len_per_gpu=16384 \
    actor_rollout_ref.actor.fsdp_config.param_offload=false actor_rollout_ref.actor.fsdp_config.optimizer_offload=false \
    actor_rollout_ref.rollout.gpu_memory_utilization=0.3 actor_rollout_ref.rollout.agent.num_workers=4 "${graphs[@]}" \
    ++ray_kwargs.ray_init.include_dashboard=false trainer.max_actor_ckpt_to_keep=1 "$@" || [ $? -eq 124 ]
  ;;
report) "$PYTHON" -m benchmarks.gpu.report "$WORK" "$@" ;;
*) echo "unknown: $part (cold, local, verl, even or report)" >&2; exit 2 ;;
esac
