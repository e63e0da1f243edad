"""What `calmix map` shows.

datamap        The data map as one HTML page: works offline, no library, 200,000 rows
map_directory  What `calmix map` leaves on disk
map_tables     The tables that `calmix map` prints
"""
