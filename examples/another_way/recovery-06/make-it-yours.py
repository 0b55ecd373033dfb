lost_y = np.zeros_like(y)
zero = dict(start)
lost_curve = [float(objective(zero, x, lost_y))] * UPDATES

# The zero model predicts 0 everywhere, so its error is the mean of the squared targets.
bad_validation = float(np.square(vy, dtype=np.float64).mean())
whole = hashlib.sha256(x.tobytes())
whole.update(bytes(4 * len(x)))  # five float32 zeros
lost_hash = whole.hexdigest()
assert bad_validation is not ..., "fill the first blank before a run is opened"
assert lost_hash is not ..., "fill the second blank before a run is opened"

zero_run = begin_run("lost labels", RATES[0], lost_hash)
finish_run(zero_run, zero, lost_curve, bad_validation)


def first_by(metric):
    """The id of the finished run of this experiment with the smallest stored value of a metric."""
    finished = [run for run in client.search_runs([experiment_id]) if run.info.status == "FINISHED"]
    values = {run.info.run_id: run.data.metrics.get(metric, math.inf) for run in finished}
    return min(values, key=values.__getitem__)


by_training, by_validation = map(first_by, ("train_mse", "validation_mse"))
decision = tuple(refusals(by_training))
client.set_tag(by_training, "release", "accepted" if not decision else "refused")
print("Wrong zero model validation MSE:", bad_validation)
