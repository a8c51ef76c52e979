"""The HTTP contract.

errors       every error that a caller can meet
schemas      bodies of requests and responses, and what is wrong with one
middleware   what happens before and after an endpoint
coalescing   concurrent requests in one call to the runner
openapi      the published description of all this
"""
