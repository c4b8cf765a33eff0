"""Imports run downhill, and light modules stay light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = {"torch", "transformers", "triton", "lm_eval", "datasets"}
LATE = {"pandas", "scipy", "matplotlib", "math_verify"}
LIGHT = [
    "evalcard.errors",
    "evalcard.progress",
    "evalcard.resources",
    "evalcard.modelspec",
    "evalcard.spec",
    "evalcard.gate.judge",
    "evalcard.gate.gatefile",
    "evalcard.cli.main",
    "evalcard.cli.run",
    "evalcard.cli.gate",
    "evalcard.cli.layout",
    "evalcard.cli.limits",
    "evalcard.cli.outputs",
    "evalcard.cli.verdict",
    "evalcard.card.annotations",
    "evalcard.card.gate_outputs",
    "evalcard.card.limits",
    "evalcard.card.deployment",
    "evalcard.card.report.build",
    "evalcard.cli.card",
    "evalcard.cli.footprint",
    "evalcard.cli.report",
    "evalcard.footprint.footprint",
    "evalcard.card.check.check",
    "evalcard.cli.checked",
    "evalcard.cli.list",
    "evalcard.cli.tables",
    "evalcard.backends.backend",
    "evalcard.backends.apart",
    "evalcard.backends.choice",
    "evalcard.backends.engine_process",
    "evalcard.card.formats.render",
    "evalcard.card.sources",
    "evalcard.cli.compare",
    "evalcard.cli.compared",
    "evalcard.gate.lmeval_notes",
    "evalcard.keep",
    "evalcard.results.imported.llama_perplexity",
    "evalcard.card.view",
    "evalcard.card.render",
    "evalcard.card.charts",
    "evalcard.card.fidelity",
    "evalcard.card.figures",
    "evalcard.card.pngdata",
    "evalcard.card.metadata",
    "evalcard.card.summary",
    "evalcard.card.verdicts",
    "evalcard.compare.published",
    "evalcard.compare.recovery",
    "evalcard.compare.paired",
    "evalcard.compare.health.examine",
    "evalcard.compare.health.stored",
    "evalcard.results.records",
    "evalcard.results.store",
    "evalcard.tasks.judges.judge",
    "evalcard.tasks.judges.registry",
    "evalcard.tasks.judges.thinking",
    "evalcard.tasks.judges.worker",
    "evalcard.tasks.own.custom",
    "evalcard.tasks.overview",
    "evalcard.rescore",
    "evalcard.plan",
    "evalcard.cli.power",
    "evalcard.compare.plans",
    "evalcard.priors",
    "evalcard.outlook",
    "evalcard.gateplan",
    "evalcard.forecast",
    "evalcard.compare.evidence",
    "evalcard.compare.fidelity",
    "evalcard.compare.intervals",
    "evalcard.compare.measures",
    "evalcard.compare.power",
    "evalcard.compare.sequential",
    "evalcard.compare.betting",
    "evalcard.early",
    "evalcard.rowtest",
    "evalcard.run",
    "evalcard.runrecord",
    "evalcard.card.measures",
    "evalcard.cli.tasks",
    "evalcard.cli.rescore",
    "evalcard.cli.doctor",
    "evalcard.cli.quantize",
    "evalcard.quantize",
    "evalcard.calibrate",
    "evalcard.calibrate_script",
    "evalcard.cli.compare",
    "evalcard.cli.flips",
    "evalcard.compare.alike",
    "evalcard.compare.beside",
    "evalcard.compare.confidence",
    "evalcard.compare.flips",
    "evalcard.compare.joined",
    "evalcard.flipped",
    "evalcard.results.references",
    "evalcard.stored",
    "evalcard.tasks.questions",
    "evalcard.results.imported.detect",
    "evalcard.results.imported.load",
    "evalcard_engine.errors",
    "evalcard_engine.request",
    "evalcard_engine.scheduler",
    "evalcard_engine.cache.pages",
    "evalcard_engine.cache.prefix_tree",
    "evalcard_engine.checkpoint.gguf_file",
    "evalcard_engine.checkpoint.gguf_model",
    "evalcard_engine.quant.scheme",
]


def imported_by(module: str) -> set[str]:
    """Top-level packages in sys.modules of a fresh interpreter that imported ``module``."""
    code = f"import {module}, sys; print(' '.join({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("module", LIGHT)
def test_light_module(module: str):
    assert not imported_by(module) & (HEAVY | LATE)


def imports_of(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.add(node.module or "")
    return names


def test_the_engine_knows_nothing_of_evalcard():
    for path in (ROOT / "engine").rglob("*.py"):
        if "benchmarks" not in path.parts:
            found = {name for name in imports_of(path) if name == "evalcard" or name.startswith("evalcard.")}
            assert not found, (path, found)


def test_engines_are_opened_in_three_places_only():
    allowed = {"evalcard/backends/embedded.py", "evalcard/backends/inspect.py", "evalcard/bench.py"}
    light = {"evalcard_engine.quant.scheme", "evalcard_engine.errors"}
    light |= {"evalcard_engine.checkpoint.gguf_file", "evalcard_engine.checkpoint.gguf_model"}
    for path in (ROOT / "evalcard").rglob("*.py"):
        used = {name for name in imports_of(path) if name.partition(".")[0] == "evalcard_engine"} - light
        assert not used or path.relative_to(ROOT).as_posix() in allowed, (path, used)


def test_click_and_rich_stay_in_the_command_line():
    for path in (ROOT / "evalcard").rglob("*.py"):
        if "cli" not in path.relative_to(ROOT).parts:
            assert not {name.partition(".")[0] for name in imports_of(path)} & {"click", "rich"}, path


def test_package_inits_import_nothing():
    inits = [*(ROOT / "evalcard").rglob("__init__.py"), *(ROOT / "engine").rglob("__init__.py")]
    inits += [ROOT / "tasks" / "__init__.py", ROOT / "templates" / "__init__.py"]
    assert len(inits) > 10
    for path in inits:
        assert not imports_of(path), path
