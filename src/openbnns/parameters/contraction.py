"""Expressions of tensor contractions, and the axes that they name.

    expr    := operand [ "," operand ] "->" operand
    operand := name "_" indices
    indices := letters | "*" | "*" letters | letters "*"

An expression such as "a_*ik, b_*kj -> c_*ij" names the axes of every tensor by one lower-case letter each; `*` stands
for any number of further axes, at the same end wherever it occurs. Axes with the same letter have the same size, or
size 1 and are repeated. The axes of `*` are matched from the last one back; a missing one is repeated. A letter that
occurs twice in an operand on the left reads its diagonal.

A left operand named `w` is a trained parameter. The same name twice on the left is one tensor, contracted with itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NoReturn

WEIGHTS_NAME: Final = "w"
"""The name of a left operand that is a trained parameter."""

# Every axis of a contraction has a number: the batch 0, the letters a to z 1 to 26, then the axes of `*`, last one first.
_BATCH = 0
_FIRST_STAR = 27

_EXAMPLE = 'Write for instance "a_ik, b_kj -> c_ij".'
_NAME_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_INDEX_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz")


@dataclass(frozen=True)
class Operand:
    """name_indices: the letters without the `*`, whether the `*` comes before or after them, and the place in the text."""

    name: str
    letters: str
    star_first: bool = False
    star_last: bool = False
    name_at: int = field(default=0, compare=False)
    indices_at: int = field(default=0, compare=False)

    @property
    def has_star(self) -> bool:
        """True if there is a `*`."""
        return self.star_first or self.star_last

    @property
    def star_at(self) -> int:
        """Where in the text the `*` stands."""
        return self.indices_at if self.star_first else self.indices_at + len(self.letters)

    def letters_at(self) -> Iterator[tuple[str, int]]:
        """Every letter and where in the text it stands."""
        start = self.indices_at + self.star_first
        return ((letter, start + k) for k, letter in enumerate(self.letters))

    def __str__(self) -> str:
        return f"{self.name}_{'*' * self.star_first}{self.letters}{'*' * self.star_last}"


@dataclass(frozen=True)
class Expression:
    """A parsed expression: one or two operands on the left, and the output."""

    text: str
    left: tuple[Operand, ...]
    output: Operand

    @property
    def is_self_contraction(self) -> bool:
        """True if one tensor stands twice on the left."""
        return len(self.left) == 2 and self.left[0].name == self.left[1].name

    @property
    def tensors(self) -> tuple[Operand, ...]:
        """The left operands that are different tensors: what `forward` takes."""
        return self.left[:1] if self.is_self_contraction else self.left

    @property
    def weights(self) -> int | None:
        """Which of `tensors` is the trained parameter, if one is."""
        names = [operand.name for operand in self.tensors]
        return names.index(WEIGHTS_NAME) if WEIGHTS_NAME in names else None


def parse(text: str) -> Expression:
    """The expression written in `text`; spaces may surround operands, "," and "->".

    Raises ValueError with the character at which the text goes wrong, and what to write instead.
    """
    reader = _Reader(text)
    left = [reader.operand()]
    while reader.take(","):
        if len(left) == 2:
            reader.fail(reader.at - 1, "there are more than two operands on the left", "Contract two at a time.")
        left.append(reader.operand())
    reader.arrow(left)
    output = reader.operand()
    reader.end()
    _check_star(reader, left, output)
    _check_letters(reader, left, output)
    _check_names(reader, left)
    return Expression(text, tuple(left), output)


def output_shape(e: Expression, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """(N, axes...) of the output for the shapes of `e.tensors`, batch axes included."""
    return Axes(e, shapes).output_shape


def axis_numbers(
    e: Expression, shapes: Sequence[tuple[int, ...]], out_shape: tuple[int, ...]
) -> tuple[list[list[int]], list[int]]:
    """For each operand on the left, and for the output, the number of every axis; equal numbers are one index.

    Shapes are those of `e.tensors`, batch axes included. Raises ValueError if they do not fit the expression.
    """
    axes = Axes(e, shapes, out_shape)
    return axes.left, axes.output


class _Reader:
    """A parser of expressions, from left to right; `at` is the next character."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def fail(self, at: int, problem: str, cure: str) -> NoReturn:
        character = repr(self.text[at]) if at < len(self.text) else "the end"
        raise ValueError(f"tensor contraction {self.text!r}, character {at + 1} ({character}): {problem}. {cure}")

    def operand(self) -> Operand:
        self._skip_spaces()
        name_at = self.at
        name = self._run(_NAME_LETTERS)
        if not name:
            self.fail(self.at, "the name of an operand is missing", f"An operand is name_indices. {_EXAMPLE}")
        if self.text[self.at : self.at + 1] != "_":
            problem = f'the name "{name}" is not followed by "_"'
            self.fail(self.at, problem, f"A name consists of letters, then come _ and the indices. {_EXAMPLE}")
        self.at += 1
        indices_at = self.at
        indices = self._run(_INDEX_LETTERS | {"*"})
        self._check_indices(indices, indices_at)
        letters = indices.strip("*")
        star_first = indices.startswith("*")  # also when there are no letters
        star_last = indices.endswith("*") and not star_first
        return Operand(name, letters, star_first, star_last, name_at, indices_at)

    def _check_indices(self, indices: str, start: int) -> None:
        following = self.text[self.at : self.at + 1]
        if following.isalnum():
            self.fail(self.at, f'"{following}" is not an index', "Indices are lower-case letters a to z, and `*`.")
        if not indices:
            self.fail(self.at, "the indices are missing", f"Name every axis by one lower-case letter. {_EXAMPLE}")
        star = indices.find("*")
        second = indices.find("*", star + 1)
        if star >= 0 and second >= 0:
            self.fail(start + second, "there is a second `*` in one operand", "One `*` stands for all further axes.")
        if 0 < star < len(indices) - 1:
            self.fail(start + star, "`*` stands between letters", "Put it in front of all letters or behind them.")

    def take(self, token: str) -> bool:
        self._skip_spaces()
        if not self.text.startswith(token, self.at):
            return False
        self.at += len(token)
        return True

    def arrow(self, left: list[Operand]) -> None:
        if not self.take("->"):
            expected = '"->"' if len(left) == 2 else '"," or "->"'
            self.fail(self.at, f"expected {expected} after {left[-1]}", _EXAMPLE)

    def end(self) -> None:
        self._skip_spaces()
        if self.at < len(self.text):
            self.fail(self.at, "there is more after the output", "There is one output. Remove the rest.")

    def _run(self, alphabet: frozenset[str]) -> str:
        start = self.at
        while self.at < len(self.text) and self.text[self.at] in alphabet:
            self.at += 1
        return self.text[start : self.at]

    def _skip_spaces(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1


def _check_star(reader: _Reader, left: list[Operand], output: Operand) -> None:
    """Check that `*` is on both sides or on neither, and at the same end everywhere; without letters, either end will do."""
    starred = [operand for operand in left if operand.has_star]
    if starred and not output.has_star:
        problem = f"`*` of {starred[0]} is missing in the output {output}"
        reader.fail(starred[0].star_at, problem, "Add it to the output, or name the axes to be summed by letters.")
    if output.has_star and not starred:
        problem = f"`*` of the output {output} occurs in no operand on the left"
        reader.fail(output.star_at, problem, "Add it to an operand, or remove it.")
    sided = [operand for operand in (*starred, output) if operand.has_star and operand.letters]
    for operand in sided[1:]:
        if operand.star_first != sided[0].star_first:
            problem = f"`*` stands {_end(operand)} the letters in {operand}, but {_end(sided[0])} them in {sided[0]}"
            reader.fail(operand.star_at, problem, "Put it at the same end everywhere.")


def _end(operand: Operand) -> str:
    return "in front of" if operand.star_first else "behind"


def _check_letters(reader: _Reader, left: list[Operand], output: Operand) -> None:
    known = {letter for operand in left for letter in operand.letters}
    for position, (letter, at) in enumerate(output.letters_at()):
        if letter in output.letters[:position]:
            reader.fail(at, f'index "{letter}" occurs twice in the output', "Give every axis its own letter.")
        if letter not in known:
            problem = f'index "{letter}" of the output occurs in no operand on the left'
            reader.fail(at, problem, f"The letters on the left are: {', '.join(sorted(known)) or 'none'}.")


def _check_names(reader: _Reader, left: list[Operand]) -> None:
    if len(left) < 2 or left[0].name != left[1].name:
        return
    first, second = left
    if second.name == WEIGHTS_NAME:
        reader.fail(second.name_at, "there are two operands named w", "Only one can be trained; rename the other.")
    if not first.has_star and not second.has_star and len(first.letters) != len(second.letters):
        counts = f"{len(first.letters)} and {len(second.letters)}"
        problem = f"{first} and {second} are one tensor, but have {counts} indices"
        reader.fail(second.indices_at, problem, "Name all its axes in both, or rename one operand.")


class Axes:
    """The numbers of the axes of all tensors, and the size behind each number."""

    def __init__(
        self, e: Expression, shapes: Sequence[tuple[int, ...]], out_shape: tuple[int, ...] | None = None
    ) -> None:
        if len(shapes) != len(e.tensors):
            what = "one tensor" if len(e.tensors) == 1 else "two tensors"
            raise ValueError(f"tensor contraction {e.text!r}: it contracts {what}; got {len(shapes)}.")
        if e.is_self_contraction:
            shapes = [shapes[0], shapes[0]]
        self.expression = e
        self.left = [self._numbers(operand, shape) for operand, shape in zip(e.left, shapes, strict=True)]
        self.sizes: dict[int, int] = {}
        self._owner: dict[int, Operand] = {}
        for operand, numbers, shape in zip(e.left, self.left, shapes, strict=True):
            self._add_sizes(operand, numbers, shape)
        if out_shape is None:
            self.output = self._arrange(e.output, max(map(_star_count, self.left)))
        else:
            self.output = self._numbers(e.output, out_shape)
            self._add_sizes(e.output, self.output, out_shape)
            self._check_output(out_shape)

    @property
    def output_shape(self) -> tuple[int, ...]:
        return tuple(self.sizes[number] for number in self.output)

    def _numbers(self, operand: Operand, shape: tuple[int, ...]) -> list[int]:
        stars = len(shape) - 1 - len(operand.letters)
        if stars < 0 or (stars > 0 and not operand.has_star):
            least = "at least " if operand.has_star else ""
            raise ValueError(
                f"tensor contraction {self.expression.text!r}: {operand} has {least}{len(operand.letters)} axes, but "
                f"the shape of one sample is {shape[1:]}. Name every axis of the tensor by one letter."
            )
        return self._arrange(operand, stars)

    @staticmethod
    def _arrange(operand: Operand, stars: int) -> list[int]:
        letters = [1 + ord(letter) - ord("a") for letter in operand.letters]
        star = [_FIRST_STAR + k for k in reversed(range(stars))]
        return [_BATCH, *star, *letters] if operand.star_first else [_BATCH, *letters, *star]

    def _add_sizes(self, operand: Operand, numbers: list[int], shape: tuple[int, ...]) -> None:
        for number, size in zip(numbers, shape, strict=True):
            known = self.sizes.setdefault(number, size)
            owner = self._owner.setdefault(number, operand)
            if size != known and 1 not in (size, known):
                self._fail(number, f"{known} in {owner} but {size} in {operand}. Make them equal, or one of them 1.")
            if known == 1:
                self.sizes[number], self._owner[number] = size, operand

    def _check_output(self, out_shape: tuple[int, ...]) -> None:
        stars, expected = (max(map(_star_count, numbers)) for numbers in ([self.output], self.left))
        if stars != expected:
            raise ValueError(
                f"tensor contraction {self.expression.text!r}: `*` stands for {expected} axes on the left, but for {stars} "
                f"in the output, whose shape is {out_shape[1:]} for one sample. Make their numbers equal."
            )
        for number, size in zip(self.output, out_shape, strict=True):
            if size != self.sizes[number]:
                expected = self.sizes[number]
                self._fail(number, f"{expected} in {self._owner[number]} but {size} in the output. Make it {expected}.")

    def _fail(self, number: int, problem: str) -> NoReturn:
        if number == _BATCH:
            axis = "the batch"
        elif number >= _FIRST_STAR:
            axis = f"axis {number - _FIRST_STAR} from the end of `*`"
        else:
            axis = f'index "{chr(ord("a") + number - 1)}"'
        raise ValueError(f"tensor contraction {self.expression.text!r}: the size of {axis} is {problem}")


def _star_count(numbers: list[int]) -> int:
    """How many axes `*` stands for."""
    return sum(number >= _FIRST_STAR for number in numbers)
