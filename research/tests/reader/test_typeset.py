"""Drawn pages: what the labels say is where the ink is."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs torch: pip install 'vsplade[train]'")


from research.reader.draw import draw_glyphs
from research.reader.kinds import KINDS, make_scene
from research.reader.scenes import MACHINE, NUMBERS, PROSE, RARE, RUN, SIZE, Scene
from research.reader.synthesis import Synthesis, random_affine, take
from research.reader.typeset import Labels, Typesetter
from research.reader.words import (
    CHARSET,
    CODE,
    WordBank,
    address,
    character_classes,
    made_up,
    spell,
    upper_codes,
)
from vsplade.encode.tokenizer import Tokenizer, letters_of

IDENTITY = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])


def run_row(**given: float) -> torch.Tensor:
    values = {"x": 40, "y": 40, "width": 400, "height": 20, "em": 20, "leading": 1.2, "kind": PROSE, **given}
    return torch.tensor([[float(values.get(name, 0)) for name in RUN]])


def set_one(
    typesetter: Typesetter, forward: torch.Tensor = IDENTITY, **given: float
) -> tuple[Labels, torch.Tensor]:
    glyphs, labels = typesetter.set(run_row(**given), torch.zeros(1, dtype=torch.long), forward)
    cover = torch.zeros(1, SIZE, SIZE)
    draw_glyphs(cover, glyphs, typesetter.atlas.ink)
    return labels, cover[0]


def ink_box(cover: torch.Tensor) -> tuple[float, float, float, float]:
    rows, columns = (cover > 0.3).nonzero(as_tuple=True)
    return float(columns.min()), float(rows.min()), float(columns.max()) + 1, float(rows.max()) + 1


def test_the_bank_spells_every_word_as_the_tokenizer_does(bank: WordBank) -> None:
    tokenizer = Tokenizer.load()
    for n in range(len(bank.length)):
        printed = "".join(CHARSET[code] for code in bank.characters[n] if code)
        terms = [int(term) for term in bank.pieces[n] if term >= 0]
        assert terms == tokenizer.encode(printed), printed
        for term, start, end in zip(terms, bank.piece_start[n], bank.piece_end[n], strict=False):
            assert tokenizer.encode(printed[start:end]), f"nothing to read in {printed}[{start}:{end}]"
            assert len(letters_of(tokenizer.token(term))) == end - start


def test_a_word_that_cannot_be_set_is_refused() -> None:
    tokenizer = Tokenizer.load()
    assert spell("Ω-metre", tokenizer) is None
    assert spell("a" * 23, tokenizer) is None
    assert spell("", tokenizer) is None


def test_made_up_words_can_be_set() -> None:
    import random

    rng, tokenizer = random.Random(3), Tokenizer.load()
    words = [made_up(rng) for _ in range(400)]
    assert all(spell(word, tokenizer) for word in words)
    assert any(char.isdigit() for word in words for char in word)


def test_words_without_spaces_are_labelled_one_by_one() -> None:
    import random

    rng, tokenizer = random.Random(3), Tokenizer.load()
    words = [address(["harbour", "ship"], rng) for _ in range(200)]
    set_ = [(word, spelled) for word in words if (spelled := spell(word, tokenizer))]
    assert len(set_) > 150, "most are short enough"
    for word, (_, spans) in set_:
        for term, start, end in spans:
            if tokenizer.token(term) in ("harbour", "ship"):
                assert word[start:end].lower() == tokenizer.token(term)
    assert any(word.startswith("www.") for word in words)
    assert any("@" in word for word in words)


def test_classes_and_capitals_agree() -> None:
    classes, upper = character_classes(), upper_codes()
    assert classes[CODE["a"]] == classes[CODE["A"]] == classes[CODE["É"]] - 4 == 1
    assert classes[CODE["0"]] == 27
    assert classes[CODE["-"]] == 37
    assert np.array_equal(classes[upper], classes)
    assert upper[CODE["é"]] == CODE["É"]


@pytest.mark.parametrize("em", [9.0, 20.0, 38.0])
def test_one_word_lies_where_its_label_says(typesetter: Typesetter, em: float) -> None:
    torch.manual_seed(1)
    labels, cover = set_one(typesetter, em=em, words=1, x=60, y=100)
    left, top, right, bottom = ink_box(cover)
    whole = [
        xy for xy, kept in zip(labels.piece_xy.tolist(), labels.piece_whole.tolist(), strict=True) if kept
    ]
    assert len(whole) == len(labels.piece_xy) > 0
    first, last = whole[0][0], whole[-1][0]
    assert left < first <= last < right
    if len(whole) == 1:
        assert (left + right) / 2 == pytest.approx(first, abs=0.2 * em)
    assert top < whole[0][1] < bottom
    assert labels.piece_em.tolist() == pytest.approx([em] * len(whole))


def test_pieces_of_a_code_follow_each_other(typesetter: Typesetter, bank: WordBank) -> None:
    tokenizer = Tokenizer.load()
    torch.manual_seed(0)
    for _ in range(60):
        labels, cover = set_one(typesetter, kind=NUMBERS, words=1)
        if labels.piece_term.tolist() == tokenizer.encode("H-6927"):
            break
    else:
        pytest.fail("H-6927 was never set")
    xs = labels.piece_xy[:, 0].tolist()
    left, _, right, _ = ink_box(cover)
    assert left < xs[0] < xs[1] < xs[-1] < right
    assert labels.character_class.tolist() == [8, 37, 33, 36, 29, 34]


def test_capitals_change_the_ink_and_not_the_labels(typesetter: Typesetter) -> None:
    torch.manual_seed(5)
    plain, small = set_one(typesetter, words=1)
    torch.manual_seed(5)
    capitals, large = set_one(typesetter, words=1, upper=1)
    assert plain.piece_term.tolist() == capitals.piece_term.tolist()
    assert plain.character_class.tolist() == capitals.character_class.tolist()
    assert float(large.sum()) > float(small.sum())


def test_a_word_that_leaves_the_window_is_not_whole(typesetter: Typesetter) -> None:
    torch.manual_seed(2)
    labels, _ = set_one(typesetter, kind=RARE, words=1, x=SIZE - 28, width=400, em=30)
    assert len(labels.piece_whole)
    assert not labels.piece_whole.any()


def test_labels_stay_on_the_ink_under_rotation_and_scale(typesetter: Typesetter) -> None:
    torch.manual_seed(4)
    for _ in range(4):
        forward = random_affine(1, torch.device("cpu"))
        labels, cover = set_one(typesetter, forward, y=120, height=200, width=420, em=16)
        assert share_on_ink(labels, cover[None]) == 1.0


def share_on_ink(labels: Labels, cover: torch.Tensor) -> float:
    """Of the whole pieces: how many have ink within a third of an em of their place."""
    hit = []
    for n in range(len(labels.piece_window)):
        if not labels.piece_whole[n]:
            continue
        x, y = labels.piece_xy[n].tolist()
        reach = max(2, math.ceil(float(labels.piece_em[n]) / 3))
        window = cover[int(labels.piece_window[n])]
        top, left = max(0, int(y) - reach), max(0, int(x) - reach)
        hit.append(float(window[top : int(y) + reach, left : int(x) + reach].max()) > 0.25)
    return sum(hit) / max(1, len(hit))


@pytest.mark.parametrize(("kind", "seed"), [(kind, n) for n, (kind, _) in enumerate(KINDS)])
def test_every_kind_of_page_has_its_labels_on_ink(kind: object, seed: int, typesetter: Typesetter) -> None:
    import random

    scene = Scene(random.Random(seed))
    kind(scene)  # type: ignore[operator]
    runs = torch.tensor(np.array(scene.runs, np.float32).reshape(-1, len(RUN)))
    assert len(runs)
    window = torch.zeros(len(runs), dtype=torch.long)
    torch.manual_seed(seed)
    glyphs, labels = typesetter.set(runs, window, IDENTITY)
    cover = torch.zeros(1, SIZE, SIZE)
    draw_glyphs(cover, glyphs, typesetter.atlas.ink)
    assert len(labels.piece_term)
    assert share_on_ink(labels, cover) > 0.99


def test_old_kinds_of_pages_keep_two_thirds() -> None:
    shares = {kind.__name__: share for kind, share in KINDS}
    new = sum(shares[name] for name in ("receipt", "card", "faint", "display"))
    assert sum(shares.values()) == pytest.approx(1)
    assert new == pytest.approx(1 / 3, abs=0.03)


def test_a_tills_face_is_even_or_narrow() -> None:
    from research.reader.glyphs import Atlas
    from research.reader.typeset import even_width, machine_weights

    advance = torch.full((3, len(CHARSET)), 0.6)  # even, usual, narrow
    advance[1], advance[1, CODE["i"]] = 0.5, 0.2
    advance[2], advance[2, CODE["i"]] = 0.35, 0.2
    nothing = torch.zeros(3, 1, len(CHARSET))
    atlas = Atlas(torch.zeros(0), nothing, nothing, nothing, advance)
    assert even_width(atlas).tolist() == [True, False, False]
    even, usual, narrow = machine_weights(atlas).tolist()
    assert even > narrow > 10 * usual > 0


def test_words_of_an_even_face_are_a_letter_apart(typesetter: Typesetter) -> None:
    even = typesetter.atlas.advance.clone()
    even[:] = 0.6
    typesetter.atlas = replace(typesetter.atlas, advance=even)
    typesetter.even = torch.tensor([True])
    torch.manual_seed(3)
    labels, _ = set_one(typesetter, group=MACHINE, width=420, em=20, words=6)
    steps = labels.character_xy[:, 0].diff()
    between_words = steps[steps > 12.5 * 1.2]
    assert len(between_words) >= 2
    assert float(between_words.min()) >= 2 * 0.6 * 20 - 1e-3


def test_words_do_not_run_into_each_other(typesetter: Typesetter) -> None:
    torch.manual_seed(8)
    labels, _ = set_one(typesetter, width=420, height=100, em=14)
    order = labels.character_xy[:, 1].round() * 10_000 + labels.character_xy[:, 0]
    same_line = labels.character_xy[:, 1].diff().abs() < 1
    assert bool((order.diff()[same_line] > 0).all())


def test_scenes_are_the_same_for_the_same_seed() -> None:
    first, again, other = make_scene(5), make_scene(5), make_scene(6)
    assert np.array_equal(first[0], again[0])
    assert np.array_equal(first[1], again[1])
    assert first[0].shape != other[0].shape or not np.array_equal(first[0], other[0])


def test_take_gives_each_window_its_own_rows() -> None:
    table = (torch.arange(6.0)[:, None], torch.tensor([0, 2, 2, 6]))
    rows, owner = take(table, torch.tensor([2, 0, 1, 0]))
    assert rows[:, 0].tolist() == [2, 3, 4, 5, 0, 1, 0, 1]
    assert owner.tolist() == [0, 0, 0, 0, 1, 1, 3, 3]


def test_windows_are_pictures_with_labels(synthesis: Synthesis) -> None:
    torch.manual_seed(0)
    pictures, labels = synthesis.windows(3)
    assert pictures.shape == (3, SIZE, SIZE)
    assert bool(torch.isfinite(pictures).all())
    assert -0.01 <= float(pictures.min()) <= float(pictures.max()) <= 1.01
    assert set(labels.piece_window.tolist()) <= {0, 1, 2}
    assert float(labels.piece_xy.min()) > 0
    assert float(labels.piece_xy.max()) < SIZE


def test_plain_windows_are_black_on_white(typesetter: Typesetter) -> None:
    from research.reader.supply import make_windows
    from research.reader.synthesis import Synthesis

    scenes = [make_scene(seed, plain=True) for seed in range(6)]
    assert all(len(boxes) == 0 and len(runs) for runs, boxes in scenes)
    torch.manual_seed(0)
    batch = make_windows(Synthesis(typesetter, scenes, plain=True), None, 6, 0.0).worn(plain=True)
    assert batch.pictures.min() == 0
    assert batch.pictures.max() > 0.9
    assert (batch.pictures == 0).float().mean() > 0.5, "paper is white"


@pytest.mark.parametrize(
    ("word", "goes_on", "expected"),
    [
        ("informa-", "tion", ["information"]),
        ("(Informa-", "tion,", ["information"]),
        ("state-", "space", ["state"]),
        ("toxi-", "cology", ["tox##"]),
        ("toxicol-", "ogy", ["tox##", "##icol##"]),
        ("co-", "sponsorship", ["co"]),
        ("12-", "14", ["12"]),
    ],
)
def test_a_word_broken_at_the_end_of_a_line(word: str, goes_on: str, expected: list[str]) -> None:
    tokenizer = Tokenizer.load()
    spelled = spell(word, tokenizer, goes_on)
    assert spelled is not None
    tokens = [tokenizer.token(term) for term, _, _ in spelled[1]]
    assert tokens == expected
    assert all(0 <= start < end <= len(word) for _, start, end in spelled[1])
