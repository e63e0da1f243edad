"""The datasets of the papers, as their authors publish them; `datasets.yaml` declares them.

catalogue  `published:NAME[/SPLIT][@DIRECTORY]`: the table of a split, from the hub or from files
files      The files of published datasets in their authors' own formats
"""
