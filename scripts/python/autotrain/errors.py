"""What can go wrong, each with where it is, what is wrong and what to try."""

DOES_NOT_FIT, BAD_VALUE = 71, 78  # the program's exit codes for them


class Error(Exception):
    """Something that the user must act on."""

    def __init__(self, where, what, hint=""):
        self.where, self.what, self.hint = where, what, hint
        super().__init__(str(self))

    def __reduce__(self):  # it has to come out of a pool of processes as it was
        return type(self), (self.where, self.what, self.hint)

    def __str__(self):
        place = f"{self.where}: " if self.where else ""
        return f"{place}{self.what}" + (f"\n  try: {self.hint}" if self.hint else "")


class DoesNotFit(Error):
    """Not even the smallest micro-batch fits the budget."""


class StepError(Error):
    """The step, or what was given beside it, does not do what a search needs of it."""


def raise_for(answer):
    """The answer of the library, where it holds no error."""
    error = answer.get("error") if isinstance(answer, dict) else None
    if error is None:
        return answer
    kind = {DOES_NOT_FIT: DoesNotFit, BAD_VALUE: StepError}.get(error["code"], Error)
    raise kind(error["where"], error["what"], error["hint"])
