"""What modules keep beside the values of their tensors: attributes, and the lists and dictionaries in them."""

from collections import deque
from contextlib import contextmanager

DEPTH = 4  # of containers within each other


def _containers(value, depth=DEPTH):
    if isinstance(value, (dict, list, set, deque)) and depth > 0:
        yield value
        for item in value.values() if isinstance(value, dict) else value:
            yield from _containers(item, depth - 1)


def _refill(container, before):
    container.clear()
    (container.extend if isinstance(container, (list, deque)) else container.update)(before)


class Attributes:
    """Of the parts of a module as they are now. What is assigned to them later, or put into what they keep, can be taken back: parameters,
    buffers and parts that are made on the way, too."""

    def __init__(self, parts):
        self.parts = [(part, dict(vars(part))) for part in parts]
        contained = (each for _, attributes in self.parts for value in attributes.values() for each in _containers(value))
        self.containers = {id(each): (each, each.copy()) for each in contained}

    def put_back(self):
        for part, before in self.parts:
            own = vars(part)
            for name in set(own) - set(before):
                del own[name]
            own.update(before)
        for container, before in self.containers.values():
            _refill(container, before)


@contextmanager
def attributes_kept(module):
    attributes = Attributes(module.modules())
    try:
        yield
    finally:
        attributes.put_back()
