last = [float(label) for label in list(make_batches(SEED, 0))[-1]["y"]]
empty_slots = BATCH_SIZE - len(last)
padded_labels = last + [0.0] * empty_slots
mask = np.concatenate([np.ones(len(last)), np.zeros(empty_slots)])
unmasked = sum(last) / BATCH_SIZE
masked = float(np.dot(padded_labels, mask)) / len(last)
