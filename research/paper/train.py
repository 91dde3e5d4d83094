"""The paper's model trained on the paper's data; under torchrun, on several GPUs.

``vsplade train --from-pdfs`` trains it on PDFs. docs/paper-model.md explains both.
"""

from __future__ import annotations

import os
from typing import Any

from research.command import main
from research.experiments.hub import open_dataset
from research.paper.data import ColpaliPairs, LongQueryPairs, RlhnPairs, check_captions, read_captions
from research.paper.judge import dataset_judge
from research.paper.judging import Judging, train_judged
from research.paper.mixing import MixedConfig, train_mixed
from research.paper.options import PaperOptions
from vsplade.cli.common import note
from vsplade.encode.modernvbert.find_model import find_model
from vsplade.errors import InputError
from vsplade.train.adapt import Say, configuration, silent
from vsplade.train.loop import Run
from vsplade.train.pairs import ImagePairs


def train_paper(options: PaperOptions, say: Say = silent) -> dict[str, Any]:
    """Train the paper's model on ColPali's train set or a folder of pairs, with RLHN's texts where given."""
    config = configuration(options.config, options.set, MixedConfig)
    images = _images(options, config)
    texts = RlhnPairs(options.texts, config) if options.texts is not None else None
    backbone = find_model(options.backbone)
    run = Run(backbone, options.out, options.device, options.every, options.stop_after)
    if options.dev is None:
        return train_mixed(config, run, images, texts, say)
    judge = dataset_judge(open_dataset(options.dev, options.data), backbone)
    judging = Judging(judge, max(1, options.judge_every), options.patience)
    return train_judged(judging, config, run, images, texts, say)


def _images(options: PaperOptions, config: MixedConfig) -> ImagePairs:
    captions, shortest = config.captions != "none", config.shortest_query
    if (options.pages is None) == (options.pairs is None):
        raise InputError("Give one source of pages: --pages or --pairs.")
    if options.pairs is not None:
        return LongQueryPairs(options.pairs, captions, shortest)
    assert options.pages is not None
    if not captions:
        return ColpaliPairs(options.pages, shortest_query=shortest)
    if options.captions is None:
        raise InputError("This configuration trains with captions: give --captions, or --set captions=none.")
    known = read_captions(options.captions)
    pairs = ColpaliPairs(options.pages, known, shortest)
    check_captions(pairs.ids(options.captions), known)
    return pairs


if __name__ == "__main__":
    # Under torchrun all processes come here; the first one speaks.
    main(train_paper, PaperOptions, say=note if os.environ.get("RANK", "0") == "0" else silent)
