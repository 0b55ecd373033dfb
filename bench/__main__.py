"""The command `python -m environment bench`: measure this grader and its peers on the same notebooks."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Annotated

import typer
from rich.console import Console

import environment
from bench import report
from bench import results as kept_results
from bench.measure import Failed, carry_out, measure, variables
from bench.peers import ROOT, Missing, Place, digest, peers, prepare
from bench.plan import HUGE, Case, cases, rounds_of, schedule
from bench.results import Kept, Results, Sample
from bench.runners import OWN, RUNNERS, Stand

CACHE = ROOT / ".cache" / "bench"
QUICK = ("script", "floor", "run", "grade")
LOOK, SELDOM = 0.1, 2.0  # seconds between looks at memory: where time does not count, and where it does
BUSY = 0.7
_LIMIT, _LIMIT_EACH = 600.0, 60.0  # seconds

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
console = Console(stderr=True, highlight=False)

_HELP = """Measure nbgrader, otter-grader, nbval, nbmake, papermill, nbclient, nbdev, ploomber-engine and this grader on the same notebooks.

Each peer is installed in an environment of its own below .cache/bench. Every round runs every runner once, one place further on in
each round; the page docs/benchmarks.md, its picture and a file in bench/results are written from all of it. Each measurement is kept as
it comes: after an interruption the same command goes on. Use a machine that does nothing else.

Examples:

  --list                           what would be measured, and how long it took before

  --quick                          does it work at all? One notebook, no other environment, nothing published

  --sizes 1,10 --rounds 1          every runner once, a few minutes

  --goals --rounds 5,500:1         just what the goals need

  --rounds 5,40:3,500:1            everything; from 40 notebooks on 3 rounds, from 500 on one

  --only nbgrader,run --most 40    two runners, classes up to 40; nothing published

  --report                         write the page from the newest file in bench/results, without measuring
"""


@dataclass(frozen=True)
class Ready:
    """What measurements need.

    Attributes:
        places: of the peers that could be installed.
        missing: the others.
        work: a folder for everything that is made.
    """

    places: Mapping[str, Place]
    missing: tuple[str, ...]
    work: Path


def say(text: str) -> None:
    """A line of progress, on stderr."""
    console.print(text, markup=False, soft_wrap=True)


def _sizes(text: str) -> tuple[int, ...]:
    try:
        found = tuple(sorted({int(one) for one in text.split(",")}))
    except ValueError:
        found = ()
    if not found or found[0] < 1:
        raise typer.BadParameter(f"{text!r}: give numbers of notebooks, for instance 1,10,40")
    return found


def _runners(text: str) -> tuple[str, ...]:
    names = tuple(one.strip() for one in text.split(",") if one.strip())
    for name in names:
        if name not in RUNNERS:
            raise typer.BadParameter(f"there is no runner {name!r}; there are {', '.join(RUNNERS)}")
    return names


def _rounds(text: str) -> str:
    try:
        rounds_of(text, 1)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return text


@app.command(help=_HELP)
def bench(
    rounds: Annotated[str, typer.Option(help="How many rounds; with SIZE:N from that size on.")] = "5,500:1",
    sizes: Annotated[str, typer.Option(help="Numbers of notebooks in a class.")] = "1,10,40",
    only: Annotated[str, typer.Option(help="Only these runners, separated by commas. Nothing is published.")] = "",
    most: Annotated[int | None, typer.Option(min=1, help="Leave out classes that are larger.")] = None,
    goals: Annotated[bool, typer.Option("--goals", help="Only what the goals need.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help=f"One notebook, one round, only {', '.join(QUICK)}. Nothing is published.")
    ] = False,
    memory: Annotated[bool, typer.Option("--memory/--no-memory", help="A further round, not timed, that looks at memory.")] = True,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget what was measured before.")] = False,
    publish: Annotated[
        bool | None,
        typer.Option("--publish/--no-publish", help="Write the page, also where only a part was measured, or not at all."),
    ] = None,
    kept: Annotated[Path, typer.Option(help="Folder for environments and measurements.", show_default=".cache/bench")] = CACHE,
    listing: Annotated[bool, typer.Option("--list", help="Say what would be measured, and stop.")] = False,
    rewrite: Annotated[bool, typer.Option("--report", help="Write page and picture from the newest results, and stop.")] = False,
) -> None:
    """See _HELP."""
    if rewrite:
        _write(report.latest())
        return
    if sys.platform != "linux":
        say("bench: it measures on Linux only, where memory and CPU time of all processes can be seen; --report works everywhere")
        raise typer.Exit(2)
    names = _runners(only)
    wanted = cases(_sizes(sizes), goals_only=goals, only=names, most=most)
    if quick:
        rounds, memory = "1", False
        wanted = cases((1,), only=names or QUICK, most=1)
        wanted = [case for case in wanted if case.variant == "jax"]
    if not wanted:
        raise typer.BadParameter("nothing is left to measure")
    _rounds(rounds)
    publish = not (quick or names or most) if publish is None else publish
    try:
        done = _all(wanted, rounds, kept, memory=memory, fresh=fresh, listing=listing)
    except Failed as failed:
        say(f"bench: {failed}")
        raise typer.Exit(3) from None
    except KeyboardInterrupt:
        say("bench: stopped; the same command goes on from here")
        raise typer.Exit(130) from None
    if done is None:
        return
    if publish:
        say(f"written: {_shown(kept_results.save(done))}")
        _write(done)
    else:
        say(f"written: {_shown(kept_results.save(done, kept / 'results'))}; nothing published")
        print(report.generated(done))


def _shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)


def _write(done: Results | None) -> None:
    for path in report.publish(done):
        say(f"written: {_shown(path)}")


def _all(wanted: list[Case], rounds: str, kept: Path, *, memory: bool, fresh: bool, listing: bool) -> Results | None:
    """Measure, and return everything that is known of these cases."""
    needed = {RUNNERS[case.runner].peer for case in wanted}
    known = {name: peer for name, peer in peers().items() if name in needed}
    store = Kept(kept / "rounds.jsonl", kept_results.setup(map(digest, peers().values())))
    if fresh:
        store.forget()
    plan = list(schedule(wanted, rounds, memory=memory))
    if listing:
        _list(plan, store)
        return None
    if store.others:
        say(f"{store.others} earlier measurements were of other sources or versions, and are not used")
    if (load := os.getloadavg()[0]) > BUSY:
        say(f"the machine is at work already (load {load:.1f}): times will be too long, and uneven")
    places: dict[str, Place] = {}
    missing: list[str] = []
    for name, peer in known.items():
        try:
            places[name] = prepare(peer, kept, say)
        except Missing as error:
            say(f"{name} cannot be installed and is left out:\n{error}")
            missing.append(name)
    plan = [(number, case) for number, case in plan if RUNNERS[case.runner].peer not in missing]
    with tempfile.TemporaryDirectory(prefix="bench-") as work:
        _rounds_of(plan, store, Ready(places, tuple(missing), Path(work).resolve()))
    if kept_results.setup(map(digest, peers().values())) != store.setup:
        raise Failed("the grader, the notebooks or a lock were changed while they were measured: run it again, it begins anew")
    planned = set(plan)
    versions = {
        "shared": kept_results.shared_versions(
            (pin.name, pin.version) for pin in environment.pins((ROOT / environment.RUNTIME).read_text(encoding="utf-8"))
        )
    }
    versions |= {name: dict(place.versions) for name, place in places.items()}
    samples = sorted((one for one in store.samples if (one.round, one.case) in planned), key=lambda one: (one.round, one.case))
    return Results(
        date=kept_results.today(), machine=kept_results.machine(), setup=store.setup, versions=versions, missing=tuple(missing), samples=tuple(samples)
    )  # fmt: skip


def _list(plan: list[tuple[int, Case]], store: Kept) -> None:
    for case in dict.fromkeys(case for _, case in plan):
        numbers = [number for number, one in plan if one == case]
        known = [one.wall for one in store.samples if one.case == case]
        took = f"{median(known):.1f} s each" if known else "not measured yet"
        there = sum(store.find(case, number) is not None for number in numbers)
        print(f"{case!s:<32} {len(numbers)} times, {there} of them done; {took}")
    print(f"together {len(plan)} measurements{_left(plan, store)}")


def _left(plan: list[tuple[int, Case]], store: Kept) -> str:
    """How long what is left will take, as far as that is known from measurements of the same or another size."""
    each: dict[tuple[str, str], list[float]] = {}
    for one in store.samples:
        each.setdefault((one.runner, one.variant), []).append(one.wall / one.size)
    seconds, unknown = 0.0, 0
    for number, case in plan:
        if store.find(case, number) is None:
            known = each.get((case.runner, case.variant))
            seconds += (min(known) if case.size > 1 else max(known)) * case.size if known else 0
            unknown += not known
    parts = [f"about {timedelta(seconds=round(seconds))} left"] if seconds else []
    parts += [f"nothing is known yet of {unknown} of them"] if unknown else []
    return "".join(f"; {part}" for part in parts)


def _rounds_of(plan: list[tuple[int, Case]], store: Kept, ready: Ready) -> None:
    home = ready.work / "home"
    # The list of fonts is made once for everybody: it takes seconds, in the first program that draws.
    carry_out([str(OWN), "-c", "import matplotlib.font_manager"], ready.work, variables(home, OWN))
    for index, (number, case) in enumerate(plan, 1):
        if store.find(case, number) is not None:
            continue
        sample = _one(number, case, ready, home)
        store.add(sample)
        what = f"{sample.wall / case.size:.3f} s and CPU {sample.cpu / case.size:.3f} s a notebook"
        what += f", {sample.peak_mb:.0f} MB" if sample.peak_mb else ""
        say(f"[{index}/{len(plan)}] round {number}: {case}: {what}{_left(plan[index:], store) if index < len(plan) else ''}")


def _one(number: int, case: Case, ready: Ready, home: Path) -> Sample:
    """One measurement, in a new folder that is deleted afterwards."""
    runner = RUNNERS[case.runner]
    folder = Path(tempfile.mkdtemp(prefix="m", dir=ready.work))
    stand = Stand(case.variant, case.size, folder, ready.work / "shelf", home, ready.places.get(runner.peer or ""))
    try:
        job = runner.job(stand)
        look = SELDOM if case.size >= HUGE else LOOK if number == 0 else 0.0
        load = os.getloadavg()[0]
        limit = _LIMIT + _LIMIT_EACH * case.size
        used = measure(job, folder, variables(home, stand.python), limit, look)
    except Failed as failed:
        raise Failed(f"{case}, round {number}: {failed}") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Sample(
        runner=case.runner, variant=case.variant, size=case.size, round=number, wall=used.wall, cpu=used.cpu, exact=used.exact, steps=used.steps if runner.name == "again" else (),
        peak_mb=used.peak_mb, own_mb=used.own_mb, load=round(load, 2),
    )  # fmt: skip


def main() -> None:
    """Run the command line; SIGTERM ends it as Ctrl-C does."""
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    began = time.monotonic()
    try:
        app()
    finally:
        if (minutes := (time.monotonic() - began) / 60) > 1:
            say(f"bench: {minutes:.0f} minutes")


if __name__ == "__main__":
    main()
