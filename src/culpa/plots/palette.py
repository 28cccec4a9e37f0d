"""Colours that people with any kind of colour vision can tell apart (after Okabe and Ito), for all pictures."""

RAISES = "#d55e00"  # blame that raises the score; culprits, alarms
LOWERS = "#0072b2"  # blame that lowers it
PLAIN = "#8d99ae"  # everything that is merely there
INK = "#1b263b"  # lines and marks on top
MILD, STRICT = "#e69f00", RAISES  # limits: warning, alarm
NOTHING = "#e5e5e5"  # missing cells
