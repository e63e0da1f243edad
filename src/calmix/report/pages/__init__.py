"""HTML pages as data: an answer, prose, facts, tables and charts, in sections.

axes       Ticks of an axis, and how their numbers are written
embedding  What a page carries inside itself: data, style and script with their hashes
forest     A forest plot as a table: every effect drawn with its interval beside its number
page       The blocks of a page, and how it is rendered
plot       A chart as SVG that keeps the size of its letters at any width
"""
