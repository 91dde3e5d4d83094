"""I have PDFs of my own; how does the paper's model learn from them? Needs torch: the extra ``hf``."""
