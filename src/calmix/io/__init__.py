"""One table reader and writer, atomic writes, locks, checksums, the run directory.

arrow_values    Arrow columns as Python values and as texts; what has no such form is named by its row
directory_lock  One writer at a time
formats         Which format a table file has: by its name alone, never by its content
json_records    JSON: one object per line, a list of objects, or an object of columns
manifest        What finished work is made of: its files with their sizes and hashes
memory_tables   Tables that were given as objects, by a name that says so
npz_arrays      Numpy archives: plain arrays by name
opening         The bytes of a file, unpacked where its name ends in `.gz`
parquet_files   Parquet files, whole or in batches
parser_errors   What parsers raise about a broken file, turned into one line for the user
record_shapes   What the values of a record must be
records         Records in JSON and YAML: what runs, comparisons and checkpoints say about themselves
replacing       Files that appear whole or not at all, under names that nobody can guess
run_directory   The run directory: what a run leaves on disk, and where
separated       Comma- and tab-separated values: a header, then one row per record
spreadsheet     Cells for spreadsheets: in a csv that people open, a text must not be run as a formula
table           A table of raw values: what a data file holds before anything is known about its columns
tables          A file as a table: the one reader of training data, predictions and dynamics
writing         Write a table in the format that its file name asks for
"""
