"""What Anydim raises, by kind, and what it warns of."""


class Error(Exception):
    """Every error of Anydim's. Its text says what happened, where, what was expected, what came and
    what to do."""


class OptionError(Error, ValueError):
    """An option or argument that Anydim does not take."""


class UnsupportedError(Error, NotImplementedError):
    """The model uses an op, opset, dtype or form that Anydim does not compile."""


class MalformedError(Error, ValueError):
    """A model or file is missing, truncated or contradicts itself."""


class InputError(Error, ValueError):
    """Arrays of a call do not fit: name, dtype, shape, layout, device, a bound or a check of the
    model's."""


class ResourceError(Error, RuntimeError):
    """Memory, a device, its driver or a compiler library is missing."""


class WriteError(Error, OSError):
    """A file cannot be written."""


class CancelledError(Error):
    """The work was asked to end."""


class ClosedError(Error, ValueError):
    """The model was closed."""


class ForkedError(Error, RuntimeError):
    """The model was made in the parent of this process: its threads and locks are not here."""


class InternalError(Error, AssertionError):
    """A bug of Anydim's."""


class AnydimWarning(UserWarning):
    """Something is not as it was asked for, and the work goes on."""


class PaddingWarning(AnydimWarning):
    """Rows that a mask hides are computed, or are not zero, though ``masked_rows="zero"`` was asked
    for; the text names the reason."""
