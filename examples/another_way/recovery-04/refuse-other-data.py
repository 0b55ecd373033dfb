def seek(iterator, saved, contract):
    def text(terms):
        return json.dumps(terms, sort_keys=True, indent=1).splitlines()

    odd = set(text(saved["contract"])) ^ set(text(contract))
    if not odd:
        return iterator.set_state(dict(saved["position"]))
    raise ValueError("\n".join(["this position was saved for other data:", *sorted(odd)]))


for case in ({}, {"seed": OTHER_SEED}, {"source": EditedSource()}):
    print(attempt_seek(seek, **case))
