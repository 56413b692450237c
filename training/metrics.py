"""What a batch of rollouts says about the policy, as a row of numbers. Rows are kept in `state.py`."""

from collections import Counter
from collections.abc import Sequence

from cef_env.agents import Trajectory
from cef_env.judge import FormatErrorCause, Outcome
from cef_env.training.rollouts import Batch

Row = dict[str, float | None]


def describe(trajectories: Sequence[Trajectory]) -> Row:
    """Mean reward, share of each outcome (over the tests judged), lengths, entropy.

    `tokens` and `tokens_max` are mean and longest answer, all turns of an episode together; `turns` (left out
    where there is one) the mean number of messages; `out_of_tokens` the share of answers without a
    program that the budget cut. `entropy` estimates the policy's entropy per token, in nats, by the mean of
    -log p of the sampled tokens.
    """
    outcomes = Counter(trajectory.outcome for trajectory in trajectories)
    total = len(trajectories)
    replies = [reply for trajectory in trajectories for reply in trajectory.replies]
    lengths = [sum(len(reply.token_ids) for reply in t.replies) for t in trajectories]
    cut = sum(t.info.get("format_error") == FormatErrorCause.OUT_OF_TOKENS for t in trajectories)
    return {
        "reward": round(sum(t.reward for t in trajectories) / total, 6),
        **{str(outcome): round(outcomes[outcome] / total, 6) for outcome in Outcome},
        "out_of_tokens": round(cut / total, 6),
        **({"turns": round(len(replies) / total, 4)} if len(replies) > total else {}),
        "tokens": round(sum(lengths) / total, 2),
        "tokens_max": max(lengths),
        "entropy": round(-sum(sum(reply.logprobs) for reply in replies) / sum(lengths), 6),
    }


def describe_batch(batch: Batch, group_size: int, repair: bool) -> Row:
    """`describe` of the first answers, what was drawn again, and, with online fixing, how repairs went.

    `equal_groups` is the share of groups whose rewards are all equal, `redraws` how many groups were drawn in
    their place. `pass_rate` and `fix_rate` are the shares of correct answers to problems and to failures
    (over the tests judged); `fix_rate` is None where nothing was repaired.
    """
    row = {
        **describe(batch.answers),
        "equal_groups": round(batch.equal * group_size / len(batch.answers), 6),
        "redraws": batch.redrawn,
    }
    if not repair:
        return row
    fixed = sum(t.outcome is Outcome.CORRECT for t in batch.repairs)
    return {
        **row,
        "pass_rate": row[str(Outcome.CORRECT)],
        "fix_rate": round(fixed / len(batch.repairs), 6) if batch.repairs else None,
        "repair_groups": len(batch.repairs) // group_size,
        "repairs_too_long": batch.too_long,
    }
