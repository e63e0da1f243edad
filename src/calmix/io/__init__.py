"""Files: one table reader for training data, predictions and dynamics, and files that are written whole.

formats          which format a file has, by its name
opening          the bytes of a file, unpacked
tables           a file as a table, whole or streamed as Arrow batches
separated        csv and tsv
json_records     json and jsonl
parquet_files    parquet
npz_arrays       npz
arrow_values     Arrow columns as Python values and texts
parser_errors    what a parser raises about a broken file, as one line
table            a table of raw values
writing          tables in the format that a file name asks for
"""
