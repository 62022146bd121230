"""The environments inside other people's stacks: one file a stack, which imports it only when used.

| module | stack |
| --- | --- |
| `trl` | TRL's GRPOTrainer (environment factory) |
| `verifiers` | verifiers (an environment that `vf-eval` loads) |
| `skyrl` | SkyRL-gym (`BaseTextEnv`) |
| `gem` | GEM (`gem.Env`) |
| `openenv` | OpenEnv (HTTP and WebSocket server, any client) |

Each module's docstring says what the stack cannot carry.
"""
