later_path = new_path(f"step_{SAVE_AT + 2}")

later = jax.lax.fori_loop(0, 2, lambda _, one: step(one, x, y)[0], state)
terms = json.dumps(contract, sort_keys=True).encode()
checkpointer = ocp.AsyncCheckpointer(ocp.StandardCheckpointHandler())
checkpointer.save(later_path, args=ocp.args.StandardSave({"training": later, "contract": pack_bytes(terms)}))
checkpointer.wait_until_finished()

target = {"training": template, "contract": template_of(pack_bytes(b""))}
recovered = checkpointer.restore(later_path, args=ocp.args.StandardRestore(target))
checkpointer.close()
notes = tuple(validate_contract(recovered["contract"], contract))
without_stop, after_restore = (step(one, x, y) for one in (later, recovered["training"]))
prints = {data_digest(*jax.tree.leaves(pair)) for pair in (without_stop, after_restore)}
same_next = len(prints) == 1

assert int(after_restore[0]["step"]) == SAVE_AT + 3
