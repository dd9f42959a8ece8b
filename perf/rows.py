"""All rows of the table, in its order."""

from .learning import LEARNING
from .operations import OPERATIONS
from .starts import STARTS
from .steps import STEPS

ROWS = (*STEPS, *LEARNING, *OPERATIONS, *STARTS)
