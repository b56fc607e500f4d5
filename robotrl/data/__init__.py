"""Episodes on disk: the store, its annotations, the training cache, and the windows cut from them."""
