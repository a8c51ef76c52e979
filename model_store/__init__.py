"""What is kept in the BentoML model store, and how it becomes a severity again.

normalisation   one spelling for all of Arabic's
encoder         text to windows of words, words to vectors
graph           runs what both are made of
classifier      words and their vectors to probabilities and levels
language        which language a text is in
severity        the three together: texts in, severities out
store           saving to and loading from the BentoML model store
"""

TARGETS = ("depression", "anxiety")
