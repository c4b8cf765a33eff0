"""The ``evalcard`` command: subcommands load on demand, and exit codes are set here alone."""

import atexit
import codecs
import contextlib
import errno
import importlib
import io
import os
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

import click

from evalcard.cli.streams import guard_streams, printed
from evalcard.collector import look_rarely

if TYPE_CHECKING:
    from evalcard.errors import UserError
    from evalcard_engine.errors import EngineError

COMMANDS = {
    "run": ("evalcard.cli.run", "Evaluate a baseline and its compressed variants, compare, write the card."),
    "gate": ("evalcard.cli.gate", "Judge a run against limits: exit code 0 passes, 1 fails, 3 or 4 cannot tell."),
    "compare": ("evalcard.cli.compare", "Compare two stored results of any kind, with the items that flipped."),
    "card": ("evalcard.cli.card", "Write the model cards of a run again."),
    "publish": ("evalcard.cli.publish", "Put a card into its repository on the Hub: shown first, one commit."),
    "report": ("evalcard.cli.report", "Write one HTML page of a run, with a browser over its answers."),
    "rescore": ("evalcard.cli.rescore", "Grade the stored answers of a run again, without a model."),
    "tasks": ("evalcard.cli.tasks", "What a task means here, what a model is sent for it, and fetching its data."),
    "quantize": ("evalcard.cli.quantize", "Write a compressed model: round to nearest, or GPTQ, AWQ, SmoothQuant."),
    "doctor": ("evalcard.cli.doctor", "Look into a checkpoint: schemes, bits, faults, distance from its baseline."),
    "footprint": ("evalcard.cli.footprint", "Memory that a model takes, from its config: weights, KV cache, GPUs."),
    "list": ("evalcard.cli.list", "List task names and finished runs."),
}
"""Name -> (module that defines ``command``, its line in --help), so that --help imports nothing."""

INTERNAL_ERROR = 70
INTERRUPTED = 130


class LazyGroup(click.Group):
    """Imports a subcommand's module when it is called, never for --help or completion of names."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name][0])
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in (*COMMANDS, "") and not ctx.resilient_parsing and not args[0].startswith("-"):
            from evalcard.tasks.files.suggest import near

            ctx.fail(f"No such command {args[0]!r}{near(args[0], COMMANDS)}. Commands: {', '.join(COMMANDS)}.")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


def _version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import PackageNotFoundError, version

        try:
            click.echo(f"evalcard {version('evalcard')}")
        except PackageNotFoundError:
            click.echo("evalcard, run from a checkout that is not installed")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--version", is_flag=True, callback=_version, expose_value=False, is_eager=True, help="Show the version.")
def cli() -> None:
    """What did compressing this model cost in accuracy, and how sure are we?

    Without arguments, `evalcard run` evaluates the bundled demo model and two compressed variants of it.
    Shell completion: eval "$(_EVALCARD_COMPLETE=bash_source evalcard)", or zsh_source, fish_source.
    """


def _fail(message: str, code: int) -> int:
    from evalcard.cli.lines import on_one_line, tell

    tell(f"Error: {on_one_line(message)}", err=True)
    return code


def _refused(error: "UserError | EngineError", code: int) -> int:
    """The message, or where it lists what is wrong that list, one a line."""
    from evalcard.cli.lines import on_one_line, tell

    if len(error.faults) < 2:
        return _fail(str(error), code)
    head = str(error).partition(error.faults[0])[0].rstrip(" :")
    tell(f"Error: {on_one_line(head)}:", err=True)
    for fault in error.faults:
        tell(f"- {on_one_line(fault)}", err=True)
    if error.advice:
        tell(error.advice, err=True)
    return code


def _misused(error: click.ClickException) -> int:
    """What click found wrong, below the usage of the command."""
    shown = io.StringIO()
    error.show(shown)
    usage, _, said = shown.getvalue().partition("Error: ")
    click.echo(usage, err=True, nl=False)
    return _fail(said, error.exit_code)


def _bad_path(error: OSError | RuntimeError) -> str | None:
    """What is wrong with a path of the user's that no file can ever have; None where the error is another one."""
    if isinstance(error, OSError):
        is_path = error.errno in (errno.ENAMETOOLONG, errno.ELOOP)
        return f"cannot use the path {str(error.filename)[:200]!r}: {error.strerror}" if is_path else None
    # As pathlib says it before Python 3.13.
    return f"cannot use a path: {error}" if str(error).startswith("Symlink loop") else None


def _internal_error(error: Exception) -> int:
    import traceback

    from evalcard.cli.lines import disarmed

    click.echo(disarmed("".join(traceback.format_exception(error))), err=True, nl=False)
    return _fail(
        "this is a fault of evalcard, not of your input. What was finished is stored; the same command resumes it. "
        "Please report it with the lines above.",
        INTERNAL_ERROR,
    )


def invoke(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code (design, decision 10 and Settled 6)."""
    from evalcard.errors import Interrupted, UserError
    from evalcard_engine.errors import EngineError

    try:
        result = cli.main(args=args, prog_name="evalcard", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        return _misused(error)
    except (click.Abort, KeyboardInterrupt, Interrupted):
        click.echo("Interrupted. What was finished is stored; the same command resumes it.", err=True)
        return INTERRUPTED
    except UserError as error:
        return _refused(error, error.exit_code)
    except EngineError as error:
        return _refused(error, UserError.exit_code)
    except Exception as error:  # noqa: BLE001 - the last stop: everything else is ours
        said = _bad_path(error) if isinstance(error, OSError | RuntimeError) else None
        return _fail(f"{said}. Give another path.", UserError.exit_code) if said else _internal_error(error)


def _calm_threads() -> None:
    """Let OpenMP threads that wait for each other spin for microseconds, not for milliseconds.

    On a machine that does other work too, a thread that spins takes the core from the one it waits for: the demo then
    took seven times as long. Read once, when torch is loaded, so it is set here and nowhere else; a setting of the
    user's own wins.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")


_IN_ASCII = {"±": "+-", "–": "-", "—": "-", "−": "-", "×": "x", "…": "...", "─": "-", "│": "|", "█": "#", "▏": "|"}
"""How evalcard's own signs are written where the terminal's encoding has none of them."""


def _spelled(error: UnicodeError) -> tuple[str, int]:
    """What cannot be encoded in other characters: evalcard's own signs as one would type them, all else escaped."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    parts = [_IN_ASCII.get(sign) or sign.encode("ascii", "backslashreplace").decode("ascii") for sign in text]
    return "".join(parts), error.end


def _speak_any_encoding() -> None:
    """Let no character that a terminal, a pipe or a log of CI cannot hold end a command."""
    codecs.register_error("evalcard.spelled", _spelled)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="evalcard.spelled")


def _occupy_closed_streams() -> None:
    """Let no file or pipe that is opened later get the number of a standard stream that was closed before the start."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free, which is this one


def main() -> None:
    """Entry point of the console script."""
    _occupy_closed_streams()
    _calm_threads()
    look_rarely()
    _speak_any_encoding()
    guard_streams()
    _leave(_gone() or printed(invoke(), sys.argv[1:]))


def _gone() -> int:
    """The exit code where the folder one stands in was removed, as torch and much else do not load there; else 0."""
    try:
        os.getcwd()
    except FileNotFoundError:
        from evalcard.errors import UserError

        return _fail(
            "the folder that this command was started in is gone. Change to one that exists.", UserError.exit_code
        )
    return 0


def _leave(code: int) -> NoReturn:
    """End as the interpreter does, but leave its memory to the system: taking thousands of modules apart, torch's among
    them, takes a second."""
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads that are no daemons
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # as where it was closed before the start
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
    os._exit(code)
