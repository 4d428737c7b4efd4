"""The tests. `docs/architecture.md` says where one belongs. The helpers beside this file:

- `factories`: rows, pictures, the database as text.
- `pages`, `grants`: what people and applications do, with Django's test client.
- `driver`: a browser and a backend that use the service over HTTP, and know nothing of its code.
- `server`: the service under gunicorn. `databases`, `peers`: the servers beside it.
- `documented`: what docs/ tells an operator to write and to run.
"""
