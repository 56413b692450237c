"""The commands of `cef`, a module for each subsystem; `cef_env/cli.py` puts them together."""
