same = dataset_digest(np.array(features.tolist(), dtype="float32"), np.array(labels))
reversed_digest = dataset_digest(np.flip(features), np.flip(labels))
changed_labels = labels.copy()
changed_labels[3] = 7
changed_digest = dataset_digest(features, changed_labels)
rebuilt_x, rebuilt_y = np.empty_like(features), np.empty_like(labels)
for one in make_batches(SEED, 1):
    rebuilt_x[one["id"]] = one["x"]
    rebuilt_y[one["id"]] = one["y"]
rebuilt_digest = dataset_digest(rebuilt_x, rebuilt_y)
