boundary = iter(make_loader())
delivered = 0
while delivered + BATCH_SIZE <= COUNT:  # one more batch still fits into the epoch
    delivered += len(batch_ids(next(boundary)))
boundary_state = boundary.get_state()


def replay_from(state):
    """The batch that comes next at a state, with lists instead of arrays."""
    reader = iter(loader_over(TutorialSource(), read_options=SERIAL))
    reader.set_state(state)
    return {name: values.astype(float).tolist() for name, values in next(reader).items()}


expected = {name: values.tolist() for name, values in next(boundary).items()}
replay = replay_from(boundary_state)
positions = range(delivered, delivered + len(replay["id"]))
second_epoch_ids = [int(one) for place, one in zip(positions, replay["id"], strict=True) if place >= COUNT]

assert np.shape(replay["id"]) == np.shape(expected["id"])
print("Next-epoch IDs replayed:", second_epoch_ids)
