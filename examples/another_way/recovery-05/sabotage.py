import io


def contents(folder):
    """The bytes of every file of a folder by relative name, each file read once."""
    found = (file for file in folder.rglob("*") if file.is_file())
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in found}


def digest_of(files):
    """What folder_digest says of these files, from the bytes in hand and not from the disk again."""
    whole = hashlib.sha256()
    for name in sorted(files):
        whole.update(b"%s\0%d\0%s" % (name.encode(), len(files[name]), files[name]))
    return whole.hexdigest()


def testimony(folder, record):
    """The arrays that a record vouches for; an exception of some kind if it does not hold."""
    files = contents(folder / record["path"])
    if digest_of(files) != record["sha256"]:
        raise ValueError("other bytes than were published")
    arrays = {name.removesuffix(".npy"): jnp.asarray(np.load(io.BytesIO(raw))) for name, raw in files.items()}
    if arrays["step"] != record["step"]:
        raise ValueError("the state says that it is another step")
    return arrays


def load(folder):
    arrays = None
    try:
        # From the oldest to the newest: what holds last is the answer.
        for record in published(folder):
            result = outcome(testimony, folder, record)
            arrays = result if isinstance(result, dict) else arrays
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return arrays


loaded = survey(load)
