class NotThisRun(ValueError):
    """A checkpoint that this program must not go on from."""


def essentials(terms):
    """A contract in which versions have lost their patch number."""
    series = {package: tuple(version.split(".")[:2]) for package, version in terms["versions"].items()}
    return {**terms, "versions": series}


def admit(path, expected, template):
    misfits = stored_specs(path).items() ^ leaf_specs(template).items()
    if misfits:
        raise NotThisRun(f"stored and wanted leaves differ: {sorted({name for name, _ in misfits})}")
    found = read_checkpoint(path, template)
    now, then = essentials(expected), essentials(json.loads(unpack_bytes(found["contract"])))
    if now != then:
        raise NotThisRun(f"another contract: {[name for name in now if now[name] != then.get(name)]}")
    return found["training"]


def differing_leaves(left, right):
    def fingerprints(tree):
        # The digest covers dtype and shape as well as the bytes.
        return {(name, data_digest(leaf)) for name, leaf in named_leaves(tree).items()}

    return {name for name, _ in fingerprints(left) ^ fingerprints(right)}


for wanted in (other_rate, other_data):
    try:
        admit(checkpoint_path, wanted, template)
    except NotThisRun as refusal:
        print(refusal)
assert differing_leaves(state, flipped) == {"key_data"}
