"""Data: files and hub datasets -> rows with ids -> encoded batches."""

from calmix.data.columns import ColumnNames, Task
from calmix.data.reading import read_rows
from calmix.data.rows import Rows
from calmix.data.sampling import stratified_sample, stratified_split
from calmix.data.splits import Splits, read_splits

__all__ = [
    "ColumnNames",
    "Rows",
    "Splits",
    "Task",
    "read_rows",
    "read_splits",
    "stratified_sample",
    "stratified_split",
]
