def announce(path, step, expected):
    # Without a target Orbax gives back what is stored, whatever was expected.
    with ocp.StandardCheckpointer() as reader:
        stored = {name: np.asarray(leaf) for name, leaf in reader.restore(path).items()}
    wanted = {name: np.asarray(leaf) for name, leaf in expected.items()}

    def bits(arrays):
        return {(name, array.dtype.str, array.shape, array.tobytes().hex()) for name, array in arrays.items()}

    good = np.equal(stored["step"], step) & (bits(stored) == bits(wanted))
    if good:
        publish(str(path), stored["step"])
    return good


decisions, steps_published = rehearse(announce)
print(dict(decisions), steps_published)
