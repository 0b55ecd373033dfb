"""Short programs that drive a peer through its Python API, each run by the peer's own interpreter."""
