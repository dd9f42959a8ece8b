"""All rows of the table, in its order."""

from .operations import OPERATIONS
from .starts import STARTS
from .steps import STEPS

ROWS = (*STEPS, *OPERATIONS, *STARTS)
