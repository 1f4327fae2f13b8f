"""One file per trace format, found by its name: no registration.

A reader has ``doc`` (one line: what it reads), ``recognises(source)`` (whether a file that begins so is one of these)
and ``read(source)`` (the trace in it).  It may have ``endings`` (of files that it is asked to read when no content was
recognised) and ``files`` (what the file with the jobs is called where a whole folder is given).
"""
