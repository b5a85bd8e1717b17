"""The scorer of the tutorial's agent: is the function there that the task asks for, and is it right?"""


def score(answer, item):
    """1 where all of the task's tests are true of the function, wherever in the folder it was written."""
    for path in sorted(answer.folder.glob("*.py")):
        names = {}
        try:
            exec(path.read_text(encoding="utf-8"), names)
            if item["name"] in names:
                return all(eval(test.strip(), names) for test in item["tests"].split(";"))
        except Exception:
            continue
    return 0
