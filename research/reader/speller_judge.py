"""How much of the pictures that were kept out of training the networks spell right."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from research.reader.speller_learner import frames_of, smaller
from research.reader.speller_network import SpellerNetwork
from research.reader.word_supply import WIDTHS, Chunk
from vsplade.encode.reader.spelling import LETTERS


def said(best: NDArray[np.int64]) -> str:
    """What one picture's likeliest letters say."""
    begins = (best > 0) & (best != np.concatenate([[0], best[:-1]]))
    return "".join(LETTERS[number - 1] for number in best[begins])


def judged(network: SpellerNetwork, shelf: Chunk, device: torch.device) -> Iterator[tuple[str, bool]]:
    """For each picture of a chunk, what it says and whether that is what the network reads."""
    height = network.size.height
    for number in range(len(WIDTHS)):
        if f"p{number}" not in shelf:
            continue
        x = torch.from_numpy(shelf[f"p{number}"]).to(device)[:, None].float() / 255
        with torch.no_grad():
            best = network(smaller(x, height)).argmax(1).cpu().numpy()
        frames = frames_of(torch.from_numpy(shelf[f"w{number}"].astype(np.int64)), height).tolist()
        for row, (letters, length) in enumerate(zip(shelf[f"t{number}"], shelf[f"l{number}"], strict=True)):
            true = "".join(LETTERS[letter - 1] for letter in letters[:length])
            yield true, said(best[row, : frames[row]]) == true


def kind_of(text: str) -> str:
    digits, letters = re.search("[0-9]", text), re.search("[a-z]", text)
    return "codes" if digits and letters else "numbers" if digits else "words"


def shares_right(
    network: SpellerNetwork, kept_out: Mapping[str, Chunk], device: torch.device
) -> dict[str, dict[str, float]]:
    """Of the pictures of each source, all and by kind of word."""
    shares = {}
    for source, shelf in kept_out.items():
        right: dict[str, list[bool]] = {"all": []}
        for text, is_right in judged(network, shelf, device):
            right.setdefault(kind_of(text), []).append(is_right)
            right["all"].append(is_right)
        shares[source] = {kind: round(float(np.mean(right[kind])), 4) for kind in sorted(right)}
    return shares
