"""How pictures are drawn with matplotlib, which is loaded when something is drawn and not before."""
