#!/bin/sh
# Train on the embedded tasks with the local back end. Further settings: run_local.sh key=value ...
set -e
exec agentr1 train recipe=alfworld "$@"
