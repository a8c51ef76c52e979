"""What is kept in the BentoML model store, and how it becomes a severity again.

normalisation   one spelling for all of Arabic's
e5_weights      reads the default encoder's weights from the package that ships them
encoder         text to windows of words, words to vectors
classifier      words and their vectors to probabilities and levels
fitting         trains the classifier
language        which language a text is in
severity        the three together: texts in, severities out
store           saving to and loading from the BentoML model store
"""

TARGETS = ("depression", "anxiety")
