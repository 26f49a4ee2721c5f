"""The pages of a forgetting study: all tables, the figure, and the parts for practitioners.

No recorded figure depends on this package: it shows what ``population`` beside it measures.
"""
