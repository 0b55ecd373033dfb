def promote(registry, version):
    # A folder that is not there raises FileNotFoundError here, before anything is written.
    with os.scandir(registry / version) as entries:
        present = {entry.name for entry in entries if entry.is_file()}
    if missing := set(MODEL_FILES) - present:
        raise FileNotFoundError(f"{version} has no {', '.join(sorted(missing))}")

    record = {"sha256": folder_digest(registry / version), "version": version}
    handle, name = tempfile.mkstemp(prefix=".serving-", dir=registry)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(json.dumps(record, indent=2) + "\n")
    Path(name).replace(registry / "SERVING.json")
    return record


promotions = try_promotions(promote)
for row in promotions:
    print(*row)
