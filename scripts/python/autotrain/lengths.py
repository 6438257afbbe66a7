"""What of a batch has an entry a sample, learned from batches of several sizes."""

from .parts import is_array, is_list, named_parts, shape_of


def place_of(value, path):
    """What an array or a list is known by: the names on the way to it, and how many axes it has, of a list none. An array that has another
    number of them in some batches, as one that is squeezed has, is another one there."""
    return (*path, len(shape_of(value)) if is_array(value) else 0)


def lengths_in(value, known={}, path=()):
    """Arrays and lists at any depth, as (path, place, lengths along the axes); what lists have that are known to have an entry a sample is
    part of a sample."""
    if is_array(value):
        yield path, place_of(value, path), shape_of(value)
        return
    if is_list(value):
        place = place_of(value, path)
        yield path, place, (len(value),)
        if known.get(place):
            return
    for name, part in named_parts(value):
        yield from lengths_in(part, known, (*path, name))


class Lengths:
    """How long arrays and lists of batches were, along their axes."""

    def __init__(self):
        self.sizes = set()
        self.seen = {}  # by place and axis: {(samples, length)}

    def note(self, batch, samples):
        self.sizes.add(samples)
        for _, place, lengths in lengths_in(batch, self.known()):
            for axis, length in enumerate(lengths):
                self.seen.setdefault((place, axis), set()).add((samples, length))

    def known(self, axis=0):
        """By place: True where it was always as long as there were samples, False where it never was, or has one length. What is neither,
        as if it were padded, is left out, and what was seen at one size alone."""
        found = {}
        for (place, along), seen in self.seen.items():
            agreed = [length == samples for samples, length in seen]
            if along != axis or len({samples for samples, _ in seen}) == 1:
                continue
            if all(agreed) or not any(agreed) or len({length for _, length in seen}) == 1:
                found[place] = all(agreed)
        return found

    def axis_of(self, batch):
        """The axis along which the first array of a batch has its samples, where that is known."""
        place = next((place for _, place, _ in lengths_in(batch) if place[-1]), (0,))
        return next((axis for axis in range(place[-1]) if self.known(axis).get(place)), None)
