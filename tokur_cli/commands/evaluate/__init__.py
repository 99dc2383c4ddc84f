"""``tokur evaluate``: ``reading`` makes columns of labelled records, ``results`` evaluates them for tables and plots.

``certify`` finds a threshold with a guarantee, ``fitting`` a calibration.
"""
