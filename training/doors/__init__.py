"""The same environments behind other trainers: OpenEnv (and with it verifiers), TRL, verl.

One module each, which needs that trainer's package and is imported on use. For OpenRLHF see `../openrlhf`.
"""
