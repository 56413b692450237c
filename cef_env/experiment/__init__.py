"""`cef reproduce`: one run (`stages.py`, `sweeps.py`, `report.py`), and studies of many (`study.py`)."""
