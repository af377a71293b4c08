"""Pure decisions: values in, values out.

Nothing below this package waits, locks, logs, or reads the clock or the environment.
"""
