handed_over = fetch_bytes(chosen_id, "model.json")
claimed = hashlib.sha256(handed_over).hexdigest()
claimant = begin_run("claimant", RATES[0], data_hash)
store_bytes(claimant, "model.json", model_bytes({"weight": -SLOPE, "bias": -INTERCEPT}))
client.set_tag(claimant, "model_sha256", claimed)
client.set_terminated(claimant)


def stored_model(run):
    """The bytes of a run's model.json, or None if it has none."""
    names = {entry.path for entry in client.list_artifacts(run.info.run_id)}
    return fetch_bytes(run.info.run_id, "model.json") if "model.json" in names else None


def trace_back(content):
    # No tag is believed: whatever a run says of itself, its file decides.
    makers = (run for run in client.search_runs([experiment_id]) if stored_model(run) == content)
    maker = next(makers, None)
    if maker is not None:
        tags = maker.data.tags
        named = {"run_name": tags["mlflow.runName"], "rate": json.loads(maker.data.params["rate"])}
        return named | {name: tags[name] for name in ("data_sha256", "code_sha256")}


origin = trace_back(handed_over)
print(origin)
