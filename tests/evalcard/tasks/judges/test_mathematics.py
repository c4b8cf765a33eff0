"""The judge of mathematics on the field cases, on what breaks verifiers, and on many pairs."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from evalcard.tasks.judges.judge import Answer
from evalcard.tasks.judges.mathematics import MathJudge
from evalcard.tasks.judges.pool import CPU_LIMIT_S, WorkerPool

FIELD_CASES = [
    (31, r"\boxed{\text{The answer is 460}}", "460", True),
    (32, r"Thus the answer is \[ \boxed{42} \]", "42", True),
    (32, r"$x=1$ ... \[ \boxed{7} \]", "7", True),
    (34, "(2,4)", "(2,4)", True),
    (34, "[2,5)", "[2,5)", True),
    (34, r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}", True),
    (35, "2/3", r"\frac{2}{3}", True),
    (35, "2", r"\frac{2}{3}", False),
    (37, "11 5/6", "71/6", True),
    (37, "2 2/3", "2", False),
    (37, "4 10/3", "10", False),
    (38, r"\boxed{28\%}", r"28\%", True),
    (38, r"\boxed{28 percent}", r"28\%", True),
    (38, r"\boxed{28 pct}", r"28\%", True),
    (38, "28 %", r"28\%", True),
    (38, r"\boxed{28}", r"28\%", True),
    (38, "0.28", r"28\%", True),  # decided so: it is the same number
    (38, "0.28", "28", False),
    (40, "437 + 2*234 = 905 ... Final Answer: **73**", "73", True),
    (41, r"\frac{1}{2006!}", r"\frac{1}{2004!}", False),
    (41, "n=1,2,3", "n=2,3,4", False),
    (41, "D=(0,1.5)", "D=(0,1)", False),
    (41, "2021", r"\pm 2021", False),
    (41, "1:00", "12:00", False),
    (41, r"1+\frac1e", r"1-\frac1e", False),
    (43, r"4\sqrt(2)", "4", False),
    (44, "(0, 12.5)", "0 < x < 12.5", True),
    (44, "x<3", r"(-\infty,3)", True),  # decided so: it is the same set
    (44, r"(-\infty,3)", "x<3", True),
    (44, "x>3", r"(-\infty,3)", False),
    (46, r"so \fbox{7}", "7", True),
    (47, r"\boxed{\frac{1}{2}}", r"\frac{1}{2}", True),
    (47, r"\boxed{\frac{1}{2", r"\frac{1}{2}", False),
    (47, r"first \boxed{3}, then \boxed{\frac{1}{2", "3", False),
    (67, r"\frac{63}{400}", r"\frac{63}{400}", True),
]
OTHERS = [
    (r"\boxed{864}", r"864 \mbox{ inches}^2", True),
    (r"\boxed{90^\circ}", "90", True),
    (r"\boxed{x=5}", "5", True),
    ("x = 1 or x = 2", "1,2", True),
    ("The answers are $x=2$ and $x=1$.", "1,2", True),
    ("\u00bd", r"\frac12", True),
    ("2\u221a2", r"2\sqrt{2}", True),
    ("18 eggs", "18", True),
    ("137.5", r"137 \frac{1}{2}", True),
    ("y = 3 + 2x", "y = 2x + 3", True),
    (r"\boxed{x<2 \text{ or } x>3}", r"(-\infty, 2) \cup (3, \infty)", True),
    (r"\boxed{(-\infty, 2) \cup (3, \infty)}", r"x<2 \text{ or } x>3", True),
    (r"\boxed{x<2 \text{ or } x>4}", r"(-\infty, 2) \cup (3, \infty)", False),
    (r"-2 \le x \le 7", r"x \in [-2,7]", True),
    (r"$\begin{bmatrix} -1/3 \\ 2/3 \end{bmatrix}$", r"\begin{pmatrix} -1/3 \\ 2/3 \end{pmatrix}", True),
    ("(4,2)", "(2,4)", False),
    ("2516_9", "2516_8", False),
    ("neve", r"\text{even}", False),
    ("The answer is not 18.", "18", False),
    ("I don't think the answer is 18.", "18", False),
    ("The answer cannot be 16.", "16", False),
    ("The answer is negative 3.", "-3", True),
    (r"The answer is $\boxed{3}$ (not $\boxed{4}$).", "3", True),
    (r"-\boxed{3}", "3", False),
    (r"-\boxed{3}", "-3", True),
    (r"2\cdot\boxed{3}", "6", True),
    (r"2\cdot\boxed{3}", "3", False),
    (r"\boxed{3}/4", r"\frac{3}{4}", True),
    (r"\boxed{3}/4", "3", False),
    (r"\boxed{3}^2", "9", True),
    (r"\boxed{3}^2", "3", False),
    (r"So $k=3$. $\square$", "3", True),
    (r"It is $3$. $\blacksquare$", "3", True),
    ("Answer: 2 (rejecting -3)", "2", True),
    ("Solutions: x = -2, x = 1", "-2,1", True),
    ("Solutions: x = -2, x = 1", "1", False),
    (r"The answer is \frac{5}{3} or 1.67.", r"\frac{5}{3}", True),
    (r"The answer is \frac{5}{3} or 2.", r"\frac{5}{3}", False),
    ("Thus $k=3$.\n\nLet me know if you'd like to see 2 other methods!", "3", True),
    ("Total time is **204 minutes** (with t = 24).", "204", True),
    ("The answer is Evelyn, since her slope is steepest.", r"\text{Evelyn}", True),
    ("The fastest student is **Evelyn**.", r"\text{Evelyn}", True),
    ("Answer: Carla. Evelyn is slower.", r"\text{Evelyn}", False),
    ("The day is Monday.", r"\text{Monday}", True),
    ("The function is even.", r"\text{even}", True),
    ("The function is not even.", r"\text{even}", False),
    ("There is no solution.", r"\text{no solution}", True),
    ("The answer: it does not exist", r"\text{it does not exist}", True),
    ("The area is \u03c0.", r"\pi", True),
    ("Area = 12\u03c0 cm\u00b2", r"12\pi", True),
    ("\u221b4", r"\sqrt[3]{4}", True),
    ("\u7b54\u6848\u662f16\u3002", "16", True),
    ("\u041e\u0442\u0432\u0435\u0442: 16", "16", True),
    ("\u0661\u0666", "16", True),
    ("The distance is 3*sqrt(13).", r"3\sqrt{13}", True),
    ("The answer is 1 million.", r"1{,}000{,}000", True),
    ("The answer is 5 million", r"5\text{ million}", False),  # the unit of the gold is dropped, and no zeros with it
    (r"\boxed{\varnothing}", r"\emptyset", True),
    (r"\boxed{\begin{aligned} x &= 4 \end{aligned}}", "4", True),
    (r"\boxed{\text{The answer is } 16}", "16", True),
    (r"\boxed{0{,}5}", "0.5", True),
    ("So his total cost is 264,000+12,000=$276,000", "276,000", True),
]


def verdicts(pairs: Sequence[tuple[str, str]], judge: MathJudge | None = None) -> list[bool]:
    """pairs: (reply, gold)."""
    judged = (judge or MathJudge()).judge([Answer(text, (gold,)) for text, gold in pairs])
    return [judgement.is_right for judgement in judged]


@pytest.fixture(scope="module")
def judged_at_once() -> list[bool]:
    return verdicts([(text, gold) for _, text, gold, _ in FIELD_CASES] + [(text, gold) for text, gold, _ in OTHERS])


@pytest.mark.parametrize(
    "index", range(len(FIELD_CASES)), ids=[f"{n}-case-{case[0]}" for n, case in enumerate(FIELD_CASES)]
)
def test_field_case(judged_at_once: list[bool], index: int):
    assert judged_at_once[index] is FIELD_CASES[index][3], FIELD_CASES[index]


@pytest.mark.parametrize("index", range(len(OTHERS)))
def test_other_pairs(judged_at_once: list[bool], index: int):
    assert judged_at_once[len(FIELD_CASES) + index] is OTHERS[index][2], OTHERS[index]


def test_case_47_an_answer_that_was_cut_off_is_none():
    assert MathJudge().judge([Answer(r"\boxed{3} \boxed{\frac{1}{2", ("3",))])[0].extracted is None


def test_case_67_verdicts_and_limits_are_the_same_in_threads():
    pairs = [(r"\frac{63}{400}", "0.1575"), ("9^{9^{9^{9}}}", "5"), ("x+1", "1+x")]
    judge = MathJudge(cpu_limit_s=1.0)
    with ThreadPoolExecutor(2) as threads:
        in_threads = list(threads.map(lambda _: verdicts(pairs, judge), range(2)))
    assert in_threads == [[True, False, True]] * 2


def test_case_161_a_tower_of_powers_costs_its_limit_and_one_verdict():
    assert CPU_LIMIT_S < 5
    pairs = [(r"\boxed{9^{9^{9^{9}}}}", "5"), (r"\boxed{\sqrt{25}}", "5"), (r"\boxed{\frac{10}{2}}", "5")]
    assert verdicts(pairs, MathJudge(cpu_limit_s=1.0)) == [False, True, True]


ODD = [
    r"\boxed{9^{9^{9^{9}}}}",
    "(" * 200_000,
    r"\boxed{" + "(" * 1500 + "}",
    r"\boxed{" + "{" * 900 + "}" * 900 + "}",
    "\\boxed{\ud800}",
    "\\boxed{5\x00}",
    "\\boxed{\x00\\sqrt{2}}",
    r"\boxed{\int_0^1 \int_0^1 e^{x^y}\,dx\,dy}",
    r"\boxed{" + "9" * 1900 + "!}",
]


def test_odd_answers_cost_a_verdict_each_and_the_next_is_judged_right():
    good = (r"\boxed{2^{1/2}}", r"\sqrt{2}")
    pairs = [pair for text in ODD for pair in ((text, r"\sqrt{2}"), good)]
    start = time.monotonic()
    assert verdicts(pairs, MathJudge(cpu_limit_s=1.0)) == [False, True] * len(ODD)
    assert time.monotonic() - start < 120


def test_odd_golds_meet_themselves():
    golds = ["9^{9^{9^{9}}}", "\\frac{\ud800}{2}", "x\x00", "((((", "12:00"]
    assert verdicts([(rf"\boxed{{{gold}}}", gold) for gold in golds]) == [True] * len(golds)


def test_ten_thousand_pairs_take_seconds(monkeypatch: pytest.MonkeyPatch):
    """Half of them cannot be decided by spelling; each pair is asked once, however often it comes."""
    asked: list[int] = []
    ask = WorkerPool.ask
    monkeypatch.setattr(WorkerPool, "ask", lambda pool, questions: asked.append(len(questions)) or ask(pool, questions))
    pairs = [(rf"\boxed{{\frac{{{n % 50}}}{{7}}}}", f"{n % 50}/7") for n in range(5000)]
    pairs += [(str(n), str(n + 1)) for n in range(5000)]
    start = time.monotonic()
    assert verdicts(pairs) == [True] * 5000 + [False] * 5000
    assert time.monotonic() - start < 60
    assert asked == [50]


def test_any_gold_will_do_and_golds_may_be_solutions():
    judge = MathJudge()
    answers = [Answer("0.5", ("3", r"\frac{1}{2}")), Answer("5", ("2+3=5\n#### 5",)), Answer("5", (r"so \boxed{5}",))]
    assert [judgement.is_right for judgement in judge.judge(answers)] == [True] * 3
    assert judge.check_gold("") and judge.check_gold(r"\frac{1}{2}") is None
