early_path = Path(tempfile.mkdtemp(dir=root)) / "early"

early_iterator = iter(make_loader())
first = next(early_iterator)
early_state, _ = step(initial_state(), first["x"], first["y"])
with ocp.StandardCheckpointer() as checkpointer:
    position = pack_bytes(early_iterator.get_state())
    checkpointer.save(early_path, {"training": early_state, "reader": position, "contract": encode_contract(contract)})

saved = read_boundary(early_path)
assert json.loads(unpack_bytes(saved["contract"])) == data_contract()
early_restored = saved["training"]
early_reader = iter(make_loader())
early_reader.set_state(unpack_bytes(saved["reader"]))

early_final, early_losses, early_orders = early_restored, [], []
for batch in early_reader:
    early_final, loss = step(early_final, jnp.asarray(batch["x"]), jnp.asarray(batch["y"]))
    early_losses.append(loss)
    early_orders.append(batch["id"])
early_losses = jnp.stack(early_losses)

assert len(early_orders) == len(all_orders) - 1
assert early_losses.tolist() == all_losses[1:]
for one, other in zip(jax.tree.leaves(early_final), jax.tree.leaves(expected_state), strict=True):
    assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
