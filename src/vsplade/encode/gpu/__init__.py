"""The reader in torch: on a GPU, and for training."""
