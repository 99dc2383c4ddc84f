"""``tokur evaluate``: ``reading`` makes columns of labelled records, ``report`` results of these, and tables and plots.

``certify`` finds a threshold with a guarantee, ``fitting`` a calibration.
"""
