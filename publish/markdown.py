"""The parts of a lesson that stand in TOML, as Markdown: predictions, exercises, the quiz, references and so on.

One writing for all files, so that a prediction reads alike in the reference notebook and in a learner's copy. Texts come
here with their recorded values already in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from course.schema import Diagnosis, Evidence, Exercise, LessonFile, Option, Prediction, QuizFile, Reference, Task, UnitFile

KINDS = {"modify": "Make it yours", "transfer": "Transfer", "challenge": "Challenge"}


def banner(sources: str, advice: str) -> str:
    """The comment at the head of a generated Markdown file. Every one begins alike: see :func:`is_generated`."""
    return f"<!-- {GENERATED} from {sources} by `make build` (python -m publish build). {advice} -->"


GENERATED = "Generated"


def is_generated(text: str) -> bool:
    """Whether a Markdown file carries the banner of a generated one."""
    return text.startswith(f"<!-- {GENERATED} from ")


def join(*parts: str) -> str:
    """Paragraphs, with a blank line between those that are not empty."""
    return "\n\n".join(part.strip("\n") for part in parts if part.strip())


def item(text: str, mark: str = "-") -> str:
    """A list item; the lines after its first are indented, so that they stay in it."""
    indent = " " * (len(mark) + 1)
    first, *rest = text.strip("\n").split("\n")
    return "\n".join([f"{mark} {first}", *(f"{indent}{line}" if line.strip() else "" for line in rest)])


def bullets(texts: Iterable[str]) -> str:
    """A list."""
    return "\n".join(item(text) for text in texts)


def steps(texts: Iterable[str]) -> str:
    """A numbered list."""
    return "\n".join(item(text, f"{number}.") for number, text in enumerate(texts, 1))


def folded(summary: str, *parts: str) -> str:
    """Text behind a click. The blank lines make what is inside Markdown again."""
    return join(f"<details>\n<summary>{summary}</summary>", *parts, "</details>")


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table; bars and line ends in its texts are made harmless."""
    titles = list(head)
    lines = [titles, ["---"] * len(titles), *([_cell(text) for text in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.replace("\\|", "|").replace("|", "\\|").split())


def letter(index: int) -> str:
    """The letter of an option."""
    return chr(ord("A") + index)


def options(choices: tuple[Option, ...]) -> str:
    """The answers to choose from, lettered."""
    return bullets(f"**{letter(index)}** {option.text}" for index, option in enumerate(choices))


def feedback(choices: tuple[Option, ...]) -> str:
    """What each answer tells, the right one marked."""
    return bullets(
        f"**{letter(index)}**{' (right)' if option.correct else ''}: {option.feedback}" for index, option in enumerate(choices)
    )


def question(prediction: Prediction) -> str:
    """A prediction's question and its answers to choose from."""
    return join(f"**Predict before you run.** {prediction.ask}", options(prediction.options))


def answers(prediction: Prediction) -> str:
    """What each predicted answer tells, folded."""
    return folded("Your prediction: what each answer tells", feedback(prediction.options))


def exercise_title(one: Exercise) -> str:
    """An exercise's title with its kind before it, once."""
    kind = KINDS[one.kind]
    return one.title if one.title.casefold().startswith(kind.casefold()) else f"{kind}: {one.title}"


def exercise(one: Exercise, meta: LessonFile) -> str:
    """An exercise without its solution: the task, the guide in steps, the hints folded."""
    return join(f"### {exercise_title(one)}", f"`{one.id}` · {plural(one.points, 'point')}", asked(one, meta))


def asked(one: Task, meta: UnitFile) -> str:
    """What is asked of a learner: the task, what it trains, the guide in steps, the hints folded."""
    aims = {objective.id: objective.text for objective in meta.objectives}
    return join(
        one.task,
        "What it trains:",
        bullets(aims[name] for name in one.meets),
        "How to go about it:",
        steps(one.guide),
        *(folded(f"Hint {level}", hint) for level, hint in enumerate(one.hints, 1)),
    )


def plural(number: float, word: str) -> str:
    """A number with its noun."""
    return f"{number:g} {word}{'' if number == 1 else 's'}"


def quiz(file: QuizFile) -> str:
    """All questions, the answers folded."""
    return "\n\n".join(
        join(f"**Question {number}.** {one.text}", options(one.options), folded("Answer", feedback(one.options)))
        for number, one in enumerate(file.questions, 1)
    )


def diagnosis(rows: tuple[Diagnosis, ...]) -> str:
    """Symptom, likely cause, and the check that decides."""
    return table(("symptom", "likely cause", "check"), ((row.symptom, row.cause, row.check) for row in rows))


def evidence(rows: tuple[Evidence, ...]) -> str:
    """What to keep, and why somebody would ask for it."""
    return bullets(f"**{row.item}**: {row.why}" for row in rows)


def references(rows: tuple[Reference, ...]) -> str:
    """Primary sources."""
    return bullets(f"[{row.title}]({row.url}) ({row.version}): {row.read}" for row in rows)


def objectives(meta: UnitFile) -> str:
    """What the learner can do afterwards."""
    return join("Afterwards you can:", bullets(objective.text for objective in meta.objectives))


def after(ids: Iterable[str], names: Mapping[str, str]) -> str:
    """What comes before, by name where one is known."""
    return ", ".join(names.get(one, f"phase {one}" if one.isdigit() else one) for one in ids) or "nothing"
