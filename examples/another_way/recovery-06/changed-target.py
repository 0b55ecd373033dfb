changed_y = jnp.asarray(y).at[2].add(0.5)  # a JAX array cannot be changed in place: y is safe
raw = b"".join(np.asarray(array).tobytes() for array in (x, changed_y))
changed_hash = hashlib.sha256(raw).hexdigest()
assert changed_hash != data_hash
print("Changed target changes dataset identity.")
