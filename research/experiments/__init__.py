"""The paper's experiments on the data and encoder at hand: ``python -m research.experiments``."""
