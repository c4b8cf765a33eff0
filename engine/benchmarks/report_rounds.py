"""What a comparison prints when its rounds are over: a table, the scores of both sides, the ratio."""

import statistics
from collections.abc import Sequence

from ab_rounds import Measured, Round, summarize  # beside this file
from read_scores import side_by_side


def check_scores(rounds: Sequence[Round]) -> None:
    """Print the scores of both sides with their difference, and those of later rounds where they changed.

    Ends the program where the sides did not answer the same items: their times would say nothing.
    """
    shown: list[str] = []
    for turn in rounds:
        for name, mine in turn.ours.items():
            if turn.peer.is_cut:
                continue
            try:
                lines = [f"{name}: {line}" for line in side_by_side(mine.scores, turn.peer.scores)]
            except ValueError as error:
                raise SystemExit(f"round {turn.number}: {error}") from None
            new = [line for line in lines if line not in shown]
            if new:
                print(f"scores of round {turn.number}:", *new, sep="\n  ")
            shown += new


def report(rounds: Sequence[Round], title: str, peer_name: str) -> None:
    """The table of one comparison and, for each of evalcard's sides, the ratio that counts."""
    print("\n".join(table(rounds, title, peer_name)))
    for name in rounds[0].ours:
        print(f"{name} against {peer_name}: {summarize(rounds, name)}", flush=True)


def table(rounds: Sequence[Round], title: str, peer_name: str) -> list[str]:
    """Markdown: a row for each side, with the median of its seconds over the rounds that count."""
    counted = [turn for turn in rounds if not turn.void] or list(rounds)
    lines = [title, "| side | seconds | generated tokens | ratio |", "|---|---:|---:|---:|"]
    for name in rounds[0].ours:
        ratio = summarize(rounds, name)
        lines.append(_row(name, [turn.ours[name] for turn in counted], f"{ratio.median:.2f}"))
    return [*lines, _row(peer_name, [turn.peer for turn in counted], "1")]


def _row(name: str, measured: Sequence[Measured], ratio: str) -> str:
    seconds = statistics.median(one.seconds for one in measured)
    tokens = {one.output_tokens for one in measured if one.output_tokens is not None}
    shown = " or ".join(map(str, sorted(tokens))) or "-"
    cut = " (cut)" if any(one.is_cut for one in measured) else ""
    return f"| {name} | {seconds:.1f}{cut} | {shown} | {ratio} |"
