"""Changes to a record, for tests that say what one of them costs."""

from pcsuite.verifier.paths import parse_path


def holder_of(record, path):
    *steps, last = parse_path(path)
    for step in steps:
        record = record[step]
    return record, last


def put(path, value):
    def change(record):
        holder, last = holder_of(record, path)
        holder[last] = value

    return change


def gone(path):
    def change(record):
        holder, last = holder_of(record, path)
        del holder[last]

    return change


def exchanged(left, right):
    def change(record):
        (a, i), (b, j) = holder_of(record, left), holder_of(record, right)
        a[i], b[j] = b[j], a[i]

    return change


def edited(path, function):
    def change(record):
        holder, last = holder_of(record, path)
        holder[last] = function(holder[last])

    return change


def added(path, item):
    return edited(path, lambda items: [*items, item])


def each(path, key, function):
    def change(record):
        holder, last = holder_of(record, path)
        for item in holder[last]:
            item[key] = function(item[key])

    return change


def all_of(*changes):
    def change(record):
        for one in changes:
            one(record)

    return change
