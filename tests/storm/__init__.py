"""The storm: hostile inputs and faults against the command line, ``python -m tests.storm --seconds 600``.

warm        a process with all imports done and the model loaded, forked for every run
in_turn     the same for many runs in one process, ten times as fast
hostile     mutations of lines, bytes, JSON texts and archives
corpus      the good files that are mutated, made once by the command line itself
cases       a case: a command, its files, its options; how it is run and judged
inputs      random cases whose records are hostile
surroundings  random cases whose options, templates, posteriors, models or outputs are
checks      what must hold after every run, whatever the input was
faults      kills, interrupts, full disks, closed pipes and descriptors, two runs at once
report      the table, and a folder for what fell
"""
