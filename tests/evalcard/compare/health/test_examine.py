"""All checks together: their order, and what they mean for the gate."""

from evalcard.gate.judge import GateSpec, judge


def test_blockers_come_first(case, flips):
    case.add("gsm8k", *flips(100, 50, 0, 0), items_total=200, selection="first 100")
    case.samples["small"]["gsm8k"][0] = case.samples["small"]["gsm8k"][0].model_copy(update={"finish": "error"})
    for slug in case.slugs:
        case.verdicts[slug]["gsm8k"][50:80] = [
            verdict.model_copy(update={"outcome": "no_answer"}) for verdict in case.verdicts[slug]["gsm8k"][50:80]
        ]
    assert [finding.severity for finding in case.compare().health] == ["blocker", "warning", "warning", "note"]


def test_a_sound_comparison_has_no_findings(case, flips):
    assert case.add("arc", *flips(100, 70, 3, 2), chance=0.25).compare().health == []


def test_a_blocker_forbids_a_pass_and_a_warning_too(case, flips):
    """From answers to the gate's word: a perfect recovery, then one failed answer, then a few looping ones."""
    case.add("gsm8k", *flips(1000, 700, 0, 0))
    assert judge(case.compare(), GateSpec()).outcome == "PASS"
    samples = case.samples["small"]["gsm8k"]
    sound = list(samples)
    samples[-60:] = [one.model_copy(update={"text": "the " * 100}) for one in samples[-60:]]
    verdict = judge(case.compare(), GateSpec())
    assert verdict.outcome == "INCONCLUSIVE" and any("end in a loop" in reason for reason in verdict.reasons)
    samples[:] = [sound[0].model_copy(update={"finish": "error", "fault": "layer 1, lm_head: x"}), *sound[1:]]
    verdict = judge(case.compare(), GateSpec())
    assert (verdict.outcome, verdict.exit_code) == ("CANNOT_JUDGE", 4)
    assert any("layer 1" in reason for reason in verdict.reasons)


def test_a_note_forbids_nothing(case, flips):
    case.add("gsm8k", *flips(1000, 700, 0, 0), items_total=1319, selection="seeded")
    comparison = case.compare()
    assert [one.severity for one in comparison.health] == ["note"]
    assert judge(comparison, GateSpec()).outcome == "PASS"
