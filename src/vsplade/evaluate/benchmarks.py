"""The six public benchmarks of the paper by name: ``vidore-v2:biomedical`` and its like.

English settings, as the paper has them: French page collections (ViDoRe v1's tabfquad and shiftproject, v3's
finance_fr, energy and physics) are left out, and of sets with translated questions the English ones are kept.
The paper does not list its subsets of v3 by name; these are the ones whose pages are English.
"""

from __future__ import annotations

from collections.abc import Mapping

from vsplade.errors import InputError

BENCHMARKS: Mapping[str, Mapping[str, str]] = {
    "vidore-v1": {
        "arxivqa": "vidore/arxivqa_test_subsampled",
        "docvqa": "vidore/docvqa_test_subsampled",
        "infovqa": "vidore/infovqa_test_subsampled",
        "tatdqa": "vidore/tatdqa_test",
        "ai": "vidore/syntheticDocQA_artificial_intelligence_test",
        "energy": "vidore/syntheticDocQA_energy_test",
        "government": "vidore/syntheticDocQA_government_reports_test",
        "healthcare": "vidore/syntheticDocQA_healthcare_industry_test",
    },
    "vidore-v2": {
        "biomedical": "vidore/biomedical_lectures_v2",
        "economics": "vidore/economics_reports_v2",
        "esg": "vidore/esg_reports_v2",
        "esg-human": "vidore/esg_reports_human_labeled_v2",
    },
    "vidore-v3": {
        "computer-science": "vidore/vidore_v3_computer_science",
        "finance": "vidore/vidore_v3_finance_en",
        "hr": "vidore/vidore_v3_hr",
        "industrial": "vidore/vidore_v3_industrial",
        "pharmaceuticals": "vidore/vidore_v3_pharmaceuticals",
    },
    "visrag": {
        "arxivqa": "openbmb/VisRAG-Ret-Test-ArxivQA",
        "chartqa": "openbmb/VisRAG-Ret-Test-ChartQA",
        "infovqa": "openbmb/VisRAG-Ret-Test-InfoVQA",
        "mpdocvqa": "openbmb/VisRAG-Ret-Test-MP-DocVQA",
        "plotqa": "openbmb/VisRAG-Ret-Test-PlotQA",
        "slidevqa": "openbmb/VisRAG-Ret-Test-SlideVQA",
    },
    "visdoc-ood": {
        "mmlongbench-doc": "VLM2Vec/MMLongBench-doc",
        "mmlongbench-page": "VLM2Vec/MMLongBench-page-fixed",
        "vidoseek-doc": "VLM2Vec/ViDoSeek",
        "vidoseek-page": "VLM2Vec/ViDoSeek-page-fixed",
    },
    "irpapers": {"irpapers": "weaviate/IRPAPERS"},
}


def is_benchmark(name: str) -> bool:
    """Whether this is meant as a benchmark's name and not as a folder."""
    return name.partition(":")[0] in BENCHMARKS


def repository(name: str) -> str:
    """The hub's data set behind a name; ``irpapers`` needs no subset."""
    group, _, subset = name.partition(":")
    if group not in BENCHMARKS:
        raise InputError(f"There is no benchmark {group!r}; choose one of: {', '.join(BENCHMARKS)}.")
    subsets = BENCHMARKS[group]
    if not subset and len(subsets) == 1:
        subset = next(iter(subsets))
    if subset not in subsets:
        said = f"has no subset {subset!r}" if subset else "has several subsets"
        raise InputError(f"{group} {said}; choose one of: {', '.join(f'{group}:{s}' for s in subsets)}.")
    return subsets[subset]
