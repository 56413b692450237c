"""The same environments behind OpenRLHF on a cluster: data, launch lines and the agent that plays.

`executor.py` is the only module that needs OpenRLHF, and is imported by the agent file on the cluster.
"""
