"""The pages of a forgetting study: its checks, all tables, the figure, and a page to choose from.

No recorded figure depends on this package: it shows what ``population`` beside it measures.
"""
