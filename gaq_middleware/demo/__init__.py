"""A small real app that shows what the middleware does; `gaq demo` runs it.

`app` answers without a framework, `faces` puts it behind Starlette and werkzeug and wraps the
middleware around it, `serving` runs it and says how to use it. The pages are the HTML files.
"""
