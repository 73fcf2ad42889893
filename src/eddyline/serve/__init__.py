"""The servers: a live page, an HTTP API, metrics and PostgreSQL's protocol for a store that any run keeps current.

`watcher` watches the store and answers its queries; `view` holds the answers of an epoch and their history; `app`
sends them as the page, through `api`, as events and as `metrics`. Nothing is ever written to the store.
"""
