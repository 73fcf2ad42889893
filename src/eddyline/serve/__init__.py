"""Answers where people look: a live page, an HTTP API and metrics of a store that any run keeps current.

The walk: `watcher` looks at the store, answers its queries and keeps their `history`; `app` sends what the watcher
holds as the page, by `api`, as `events` and as `metrics`. Nothing is ever written to the store.
"""
