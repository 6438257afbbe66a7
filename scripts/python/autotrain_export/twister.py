"""States of the generators that Python and NumPy draw by, each a Mersenne Twister: as they are, and those whose first numbers are as small or as
large as can be."""

import random
import sys

WORDS = 624  # of a state; each gives the next 32 bits that are drawn
EXTREME = 400  # of them; what loops until a number suits it, as normal numbers are drawn, comes to others then
ALL_BITS = 0x12DD9BB3  # the word that gives 32 ones, as 0 gives none


def numpys():
    """NumPy's generator, where somebody has NumPy; else None."""
    numpy = sys.modules.get("numpy")
    return numpy and numpy.random


class States:
    """Of both, to be put back."""

    def __init__(self):
        self.python, self.numpy = random.getstate(), numpys() and numpys().get_state()

    def put_back(self):
        random.setstate(self.python)
        if self.numpy is not None:
            numpys().set_state(self.numpy)


def words_of(seed):
    return random.Random(seed).getstate()[1][:WORDS]


def words_again():
    """Of some seeds, and of numbers that begin with 0 and with almost 1: what is left out once in a thousand passes is left out, and what
    is kept so seldom is kept."""
    rest = words_of(0)[EXTREME:]
    return [*map(words_of, range(1, 5)), *((word,) * EXTREME + rest for word in (0, ALL_BITS))]


def put(words, generator=random):
    """generator  Python's, or numpy.random"""
    if generator is random:
        random.setstate((3, (*words, 0), None))
    else:
        generator.set_state(("MT19937", words, 0))
