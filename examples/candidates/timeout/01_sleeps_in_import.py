# expect: timeout
# policy: compile_timeout_ms=8000 load_timeout_ms=3000
"""Never ends its import."""
import time

while True:
    time.sleep(60)


class ModelNew:
    pass
