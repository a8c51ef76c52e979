"""The HTTP contract, and what stands around it.

errors       every error that a caller can meet
schemas      bodies of requests and responses, and what is wrong with one
middleware   what happens before and after an endpoint
settings     what whoever runs the service can set
access       keys, rate limits, browser origins
coalescing   concurrent requests in one call to the runner
draining     what has begun is ended before SIGTERM ends the process
telemetry    the log line of a request, and metrics
openapi      the published description of all this
"""
