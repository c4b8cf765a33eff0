"""``evalcard run``: flags or a YAML spec -> one comparison job."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evalcard.cli.values import ByteCount, KeyValues

if TYPE_CHECKING:
    from evalcard.plan import Plan

_PAIRS = {"fewshot_as_multiturn"}
"""Flags that are on, off, or not given."""


def _given(flags: dict[str, Any]) -> dict[str, Any]:
    """The flags that were given: an unset flag must not shadow the spec file. A 0 was given, and so was the --no- half
    of a pair."""
    return {
        name: value
        for name, value in flags.items()
        if value is not None and value != () and value != {} and (value is not False or name in _PAIRS)
    }


@click.command("run")
@click.argument("spec", required=False, type=click.Path(path_type=Path))
@click.option("--baseline", metavar="MODEL", help="Folder or Hub id (ORG/NAME[@REV]) of the uncompressed model.")
@click.option(
    "--compressed",
    metavar="MODEL[:SCHEME]",
    multiple=True,
    help="Compressed model, or the baseline with a "
    "scheme applied on the fly (w8a8, w4a16). May be given several times.",
)
@click.option(
    "--sweep",
    metavar="S,...",
    help="The baseline with each of these schemes, as more compressed models: fp8,w8a8,w4a16.",
)
@click.option("--tasks", metavar="T,...", help="Task names, groups or YAML files, separated by commas.")
@click.option("--num-fewshot", type=click.IntRange(min=0), help="Worked examples in the prompt; default: the task's.")
@click.option(
    "--limit",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    help="N items of a task or group in all, a seeded subset spread over its subtasks; 0 < N < 1: a share of each.",
)
@click.option("--limit-per-subtask", type=click.IntRange(min=1), metavar="N", help="First N items of every subtask.")
@click.option("--apply-chat-template", "chat_template", is_flag=True, help="Render prompts as chat turns.")
@click.option(
    "--chat-template-args",
    type=KeyValues(),
    metavar="K=V,...",
    help="Variables for the chat template, such as enable_thinking=false.",
)
@click.option(
    "--fewshot-as-multiturn/--no-fewshot-as-multiturn",
    default=None,
    help="Worked examples as turns of their own; default: wherever a chat template is applied.",
)
@click.option("--drop-shots", is_flag=True, help="Leave out whole worked examples where a prompt would not fit.")
@click.option("--system", metavar="TEXT", help="System message or instruction before every prompt.")
@click.option("--repeats", type=click.IntRange(min=1), metavar="N", help="Samples of every generated answer.")
@click.option("--temperature", type=click.FloatRange(min=0), help="Sampling temperature; 0: greedy.")
@click.option("--top-p", type=click.FloatRange(0, 1, min_open=True), help="Sample from the likeliest tokens, P in all.")
@click.option("--top-k", type=click.IntRange(min=0), help="Sample from the K likeliest tokens; 0: from all.")
@click.option(
    "--min-p", type=click.FloatRange(0, 1), help="Sample from tokens at least P times as likely as the first."
)
@click.option("--backend", metavar="B", help="evalcard (default), or a model type of lm-eval: vllm, sglang, hf, ...")
@click.option("--model-args", type=KeyValues(), metavar="K=V,...", help="Arguments for the backend's model.")
@click.option(
    "--dtype",
    type=click.Choice(["auto", "float32", "bfloat16", "float16"]),
    help="Arithmetic; auto: the checkpoint's own where the machine is fast in it, else float32.",
)
@click.option("--device", metavar="DEVICE", help="auto (default), cpu or cuda.")
@click.option(
    "--weights",
    type=click.Choice(["auto", "packed", "expanded"]),
    help="Compressed linears in memory, on CPU: as small as they are stored, or as fast as can be. Answers are the "
    "same. auto: expanded, unless that would take half of the memory.",
)
@click.option("--max-model-len", type=click.IntRange(min=2), help="Longest prompt plus answer, in tokens.")
@click.option("--max-new-tokens", type=click.IntRange(min=1), help="Longest answer, instead of the task's own limit.")
@click.option("--data-root", type=click.Path(), help="Folder that holds data sets by their Hub ids.")
@click.option("--trust-task-code", is_flag=True, help="Run Python that task files name or lead to.")
@click.option("--base-model", metavar="ID", help="Hub id of the base model for the card, where models are folders.")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of few-shot choice and sampling (default 1234).")
@click.option("--out", type=click.Path(), help="Results root (default ./results).")
@click.option("--reuse", multiple=True, type=click.Path(), help="Another results root to take equal answers from.")
@click.option("--fresh", is_flag=True, help="Answer everything anew, whatever is stored.")
@click.option("--kv-memory", type=ByteCount(), metavar="SIZE", help="Memory for the KV cache, such as 4GiB.")
@click.option("--threads", type=click.IntRange(min=1), help="CPU threads.")
@click.option("--step-tokens", type=click.IntRange(min=16), help="Token budget of one engine step.")
@click.option(
    "--gate-file",
    type=click.Path(),
    metavar="FILE",
    help="Judge the run by the limits of this gate file when it is done.",
)
@click.option(
    "--min-recovery",
    type=click.FloatRange(0, 200),
    metavar="PERCENT",
    help="Judge the run when it is done: least recovery of every row. Wins over the gate file's.",
)
@click.option(
    "--confidence",
    type=float,
    metavar="C",
    help="Of the gate's decision, and of --power (default: the gate file's, or 0.95).",
)
@click.option(
    "--sequential",
    is_flag=True,
    help="Answer items in a seeded random order, and stop as soon as the gate is decided. Needs a limit "
    "of the gate (--min-recovery, --gate-file), and the whole task: no --limit.",
)
@click.option(
    "--noise-check",
    type=click.IntRange(min=1),
    is_flag=False,
    flag_value=50,
    metavar="[N]",
    help="Ask the baseline again on N items of every task (50 where no N is given) in another batch order, and tell "
    "how many scores flip by themselves.",
)
@click.option("--power", is_flag=True, help="Show what the items can show of recovery, load no weights.")
@click.option("--dry-run", is_flag=True, help="Show what would be run, load no weights.")
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON on stdout.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
def command(spec: Path | None, power: bool, dry_run: bool, as_json: bool, quiet: bool, **flags: Any) -> int:
    """Evaluate BASELINE and COMPRESSED models on TASKS, compare item by item, write the model card.

    Give a YAML SPEC, flags, or both (flags win). Without a model the bundled demo is run. The same command
    again resumes or reuses what is stored.

    Exit code 0: done. With --min-recovery or --gate-file the run is judged as well, and the code is that of
    `evalcard gate`: 0 passed, 1 failed, 3 inconclusive, 4 cannot be judged.
    """
    from evalcard.cli.progress import make_progress
    from evalcard.cli.tables import print_outcome, print_plan
    from evalcard.plan import plan_run, with_demo_defaults
    from evalcard.spec import load_spec, make_spec

    given = _given(flags)
    resolved = load_spec(spec, given) if spec else make_spec(with_demo_defaults(given))
    progress = make_progress(quiet or as_json)
    plan = plan_run(resolved, progress, asks_power=power)
    if power or dry_run:
        _show(plan, power, as_json)
        return 0
    from evalcard.run import run_plan

    print_plan(plan, progress.say)
    outcome = run_plan(plan, progress, command=["evalcard", *sys.argv[1:]])
    if as_json:
        click.echo(outcome.comparison.model_dump_json(by_alias=True, indent=1))
    else:
        print_outcome(outcome)
    if outcome.verdict is None:
        return 0
    if not as_json:
        from evalcard.cli.verdict import print_verdict

        print_verdict(outcome.verdict, outcome.run.models, folder=outcome.card.parent)
    return outcome.verdict.exit_code


def _show(plan: "Plan", power: bool, as_json: bool) -> None:
    """What is known before any weights load."""
    from evalcard.cli.power import print_power
    from evalcard.cli.tables import print_plan

    if as_json:
        click.echo(json.dumps(plan.power_summary() if power else plan.summary(), indent=1))
    elif power:
        print_power(plan)
    else:
        print_plan(plan, click.echo)
