"""What programs of the corpus need that some isolation tiers refuse by their documented limits."""

WRITES_FILES = frozenset(
    {
        "answer_to_a_file",
        "file_in_the_working_folder",
        "memory_in_files",
        "multiprocessing",
        "process_with_a_queue",
        "remembers_in_a_file",
        "temporary_file",
    }
)
STARTS_PROCESSES = frozenset(
    {
        "child_that_never_ends",
        "cpu_in_a_grandchild",
        "cpu_in_waited_children",
        "crash_in_a_child_that_nobody_waits_for",
        "fork_and_pipe",
        "memory_of_three_children",
        "subprocess_python",
    }
)

_FILES, _PROCESSES = "the tier lets no program write files", "the tier lets no program start processes"
REFUSED: dict[str, dict[str, frozenset[str]]] = {
    "landlock": {_FILES: WRITES_FILES},
    "landlock_no_fork": {_FILES: WRITES_FILES, _PROCESSES: STARTS_PROCESSES},
}
"""Tier -> reason -> names of programs whose label does not hold there."""


def refused(tier: str) -> frozenset[str]:
    """Names of the programs whose label does not hold on a tier."""
    return frozenset().union(*REFUSED.get(tier, {}).values())
